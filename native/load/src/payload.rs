use crate::options::Options;

/// Records of a kind that are not alike; sent over and over. The payload of an offset is known as long as each run before
/// published a multiple of these.
const VARIANTS: usize = 64;

/// What the records carry. Publisher and consumer come to the same payloads.
pub enum Payloads {
    /// A sensor line repeated and cut to size, as in the published benchmarks (config.md 18.2): each record the same.
    Text,
    /// A flat JSON object of readings, no two alike.
    Json,
    Random,
}

impl Payloads {
    pub fn of(options: &Options) -> Result<Self, String> {
        match options.text_or("payload", "text") {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "random" => Ok(Self::Random),
            other => Err(format!("--payload {other}: text, json, random")),
        }
    }

    /// The payloads of records 0, 1, 2 ...; after the last one they begin again.
    pub fn cycle(&self, size: usize) -> Vec<Vec<u8>> {
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
        match self {
            Self::Text => {
                let pattern = b"ts=000000 sensor=edge temp=21.5 occ=1 batt=98 rssi=-67; ";
                vec![pattern.iter().copied().cycle().take(size).collect()]
            }
            Self::Json => (0..VARIANTS).map(|index| json(&mut numbers, index, size)).collect(),
            Self::Random => (0..VARIANTS).map(|_| (0..size).map(|_| numbers.below(256) as u8).collect()).collect(),
        }
    }
}

/// Cut to size: a broker does not parse it.
fn json(numbers: &mut Numbers, index: usize, size: usize) -> Vec<u8> {
    const FIELDS: [&str; 12] = [
        "temperature",
        "humidity",
        "pressure",
        "voltage",
        "current",
        "rssi",
        "battery",
        "flow_rate",
        "co2",
        "noise",
        "vibration",
        "uptime",
    ];
    let mut text = format!("{{\"ts\":{},\"device\":\"edge-{:04}\"", 1_764_540_000_000 + index, numbers.below(500));
    for field in FIELDS.iter().cycle() {
        if text.len() >= size {
            break;
        }
        let (whole, part) = (numbers.below(1000), numbers.below(100));
        text.push_str(&format!(",\"{field}\":{whole}.{part:02}"));
    }
    text.truncate(size);
    text.into_bytes()
}

/// The same numbers in each run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}
