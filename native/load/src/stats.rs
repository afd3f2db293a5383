use std::time::Duration;

/// The p-th percentile (0 to 1) of `samples`, in microseconds.
pub fn percentile_us(samples: &mut [Duration], p: f64) -> f64 {
    samples.sort_unstable();
    let index = ((samples.len() - 1) as f64 * p).round() as usize;
    samples[index].as_nanos() as f64 / 1000.0
}

pub fn latency_json(samples: &mut [Duration]) -> String {
    format!(
        "\"p50_us\":{:.1},\"p99_us\":{:.1},\"p999_us\":{:.1}",
        percentile_us(samples, 0.5),
        percentile_us(samples, 0.99),
        percentile_us(samples, 0.999)
    )
}
