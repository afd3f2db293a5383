//! Arguments as they come from JavaScript: numbers that may be anything, and borrowed typed arrays.

use std::ptr;

use napi::bindgen_prelude::{FromNapiValue, TypeName, ValidateNapiValue};
use napi::{Error, Result, Status, ValueType, check_status, sys};

/// 2^53 - 1, the largest number that JavaScript holds exactly.
pub const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

pub fn invalid(reason: impl Into<String>) -> Error {
    Error::new(Status::InvalidArg, reason.into())
}

/// A whole number in `0..=limit`. Lengths and positions cross as f64 because u32 arguments wrap silently.
pub fn whole(value: f64, limit: u64, name: &str) -> Result<u64> {
    if (0.0..=MAX_SAFE_INTEGER).contains(&value) && value.fract() == 0.0 && value as u64 <= limit {
        Ok(value as u64)
    } else {
        Err(invalid(format!("{name} must be a whole number from 0 to {limit}, not {value}")))
    }
}

/// `[start, end)` within a buffer of `length` bytes.
pub fn range(start: f64, end: f64, length: usize) -> Result<std::ops::Range<usize>> {
    let end = whole(end, length as u64, "end")? as usize;
    let start = whole(start, end as u64, "start")? as usize;
    Ok(start..end)
}

/// A file descriptor: never negative, at most 2^31 - 1. Whether it is open is the kernel's to say.
pub fn descriptor(value: f64) -> Result<i32> {
    Ok(whole(value, i32::MAX as u64, "fd")? as i32)
}

/// The elements of a typed array that JavaScript passed to the call in progress. Nothing is copied, and nothing is
/// kept: the engine neither moves nor frees them before the call returns. The pointer comes from the engine itself, so
/// writing through it is sound, as long as no two overlapping arrays are borrowed at once (see [`disjoint`]) and the
/// memory is not a SharedArrayBuffer that another thread writes to.
pub struct Elements<T> {
    pointer: *mut T,
    length: usize,
}

/// The N-API type tag of an element.
pub trait Element: Copy {
    const TYPE: sys::napi_typedarray_type;
    const NAME: &'static str;
}

impl Element for u8 {
    const TYPE: sys::napi_typedarray_type = sys::TypedarrayType::uint8_array;
    const NAME: &'static str = "Uint8Array";
}

impl Element for i32 {
    const TYPE: sys::napi_typedarray_type = sys::TypedarrayType::int32_array;
    const NAME: &'static str = "Int32Array";
}

impl Element for f64 {
    const TYPE: sys::napi_typedarray_type = sys::TypedarrayType::float64_array;
    const NAME: &'static str = "Float64Array";
}

impl<T> Elements<T> {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the engine gave pointer and length for a live array; `typed_array` replaced a null pointer.
        unsafe { std::slice::from_raw_parts(self.pointer, self.length) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` together with `disjoint` makes this the only slice over these elements.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.length) }
    }

    fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.pointer as usize;
        start..start + self.length * size_of::<T>()
    }
}

/// Refuses two arguments that share bytes: a write through one would change what the other promises not to change.
pub fn disjoint<A, B>(a: &Elements<A>, b: &Elements<B>) -> Result<()> {
    let (a, b) = (a.addresses(), b.addresses());
    if a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start {
        Ok(())
    } else {
        Err(invalid("the arrays of one call must not overlap"))
    }
}

impl<T: Element> TypeName for Elements<T> {
    fn type_name() -> &'static str {
        T::NAME
    }

    fn value_type() -> ValueType {
        ValueType::Object
    }
}

impl<T: Element> ValidateNapiValue for Elements<T> {}

impl<T: Element> FromNapiValue for Elements<T> {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> Result<Self> {
        let mut kind = 0;
        let mut length = 0;
        let mut data = ptr::null_mut();
        // SAFETY: `env` and `value` are those of the running call, the out pointers are ours.
        check_status!(
            unsafe {
                sys::napi_get_typedarray_info(
                    env,
                    value,
                    &mut kind,
                    &mut length,
                    &mut data,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            },
            "expected a {}",
            T::NAME
        )?;
        if kind != T::TYPE {
            return Err(invalid(format!("expected a {}", T::NAME)));
        }
        let pointer: *mut T = data.cast();
        // An empty or detached array may have no address, and a slice must have one.
        let pointer = if pointer.is_null() || length == 0 { ptr::dangling_mut() } else { pointer };
        let length = if data.is_null() { 0 } else { length };
        Ok(Self { pointer, length })
    }
}
