// SPDX-License-Identifier: GPL-2.0
//! Frames on demand, with any length and any status (property `inject`).
//!
//! The value is a JSON object, or an array of such whose frames come in turns:
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `hex` | the frame without FCS; or |  |
//! | `len` | its length, with `da`, `sa`, `type` and `fill` instead |  |
//! | `da`, `sa` | hex, 12 digits | own address, 02005e000001 |
//! | `type` | Ethernet type | 0x88b5 |
//! | `fill` | value of every payload byte, or "ramp" | 0 |
//! | `msc` | MAC status code, instead of what the MAC finds |  |
//! | `truncated` | true: the device says that it cut the frame short | false |
//! | `stored` | how many bytes reach memory, instead of frame and trailer |  |
//! | `bad_fcs` | true: the FCS does not match | false |
//! | `filter` | false: pass the address filter | true |
//! | `count` | number of frames, or of turns; in an array that of the first counts | 1 |
//! | `gap_ns` | from start to start of frames, if longer than a frame | 0 |
//! | `seq_at` | offset at which frame i carries i as 32 bits, big endian |  |

use serde_json::{Map, Value};

use crate::dmac::Arrival;
use crate::host::Host;
use crate::model::Model;

/// Longest frame that can be injected.
const MAX_LEN: u64 = 16 << 10;
/// Most frames one request can inject.
const MAX_COUNT: u64 = 1 << 20;

fn number(object: &Map<String, Value>, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = object.get(key) else {
        return Ok(None);
    };
    let number = match value {
        Value::String(text) => crate::properties::parse_number(text).ok(),
        value => value.as_u64(),
    };
    number
        .map(Some)
        .ok_or_else(|| format!("{key}: not a number"))
}

fn flag(object: &Map<String, Value>, key: &str, default: bool) -> Result<bool, String> {
    match object.get(key) {
        None => Ok(default),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| format!("{key}: not true or false")),
    }
}

/// Decodes pairs of hexadecimal digits; spaces and colons may separate them.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !matches!(c, ' ' | ':'))
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => Ok(digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => Err(format!("{text:?}: not pairs of hexadecimal digits")),
    }
}

fn address(object: &Map<String, Value>, key: &str, default: [u8; 6]) -> Result<[u8; 6], String> {
    match object.get(key) {
        None => Ok(default),
        Some(value) => parse_hex(value.as_str().unwrap_or("?"))?
            .try_into()
            .map_err(|_| format!("{key}: not an address")),
    }
}

impl Model {
    fn injected_frame(&self, object: &Map<String, Value>) -> Result<Vec<u8>, String> {
        if let Some(hex) = object.get("hex") {
            return parse_hex(hex.as_str().ok_or("hex: not text")?);
        }
        let len = number(object, "len")?.ok_or("neither hex nor len given")?;
        if len > MAX_LEN {
            return Err(format!("len: more than {MAX_LEN}"));
        }
        let ethertype = number(object, "type")?.unwrap_or(0x88b5);
        let ethertype = u16::try_from(ethertype).map_err(|_| "type: more than 16 bits")?;
        let mut frame = address(object, "da", self.mac_address())?.to_vec();
        frame.extend(address(object, "sa", [0x02, 0, 0x5e, 0, 0, 1])?);
        frame.extend(ethertype.to_be_bytes());
        let header = frame.len();
        let len = len as usize;
        match object.get("fill") {
            Some(Value::String(word)) if word == "ramp" => {
                frame.extend((0..len.saturating_sub(header)).map(|i| i as u8));
            }
            _ => {
                let byte = number(object, "fill")?.unwrap_or(0);
                let byte = u8::try_from(byte).map_err(|_| "fill: more than a byte")?;
                frame.resize(len.max(header), byte);
            }
        }
        frame.truncate(len);
        Ok(frame)
    }

    /// What an object asks for: the frame, and the gap after it.
    fn injected(&self, object: &Value) -> Result<(Arrival, u64), String> {
        let object = object.as_object().ok_or("not a JSON object")?;
        const KEYS: &[&str] = &[
            "hex",
            "len",
            "da",
            "sa",
            "type",
            "fill",
            "msc",
            "truncated",
            "stored",
            "bad_fcs",
            "filter",
            "count",
            "gap_ns",
            "seq_at",
        ];
        if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("{key}: unknown key"));
        }
        let status = number(object, "msc")?.map(u8::try_from).transpose();
        let sequence_at = number(object, "seq_at")?;
        if sequence_at.is_some_and(|at| at > MAX_LEN) {
            return Err("seq_at: too large".to_owned());
        }
        let arrival = Arrival {
            at: 0,
            frame: self.injected_frame(object)?.into(),
            status: status.map_err(|_| "msc: more than a byte")?,
            truncated: flag(object, "truncated", false)?,
            stored: number(object, "stored")?.map(|bytes| bytes as usize),
            bad_fcs: flag(object, "bad_fcs", false)?,
            unfiltered: !flag(object, "filter", true)?,
            sequence: sequence_at.map(|at| (at as usize, 0)),
            backlog: 0,
        };
        Ok((arrival, number(object, "gap_ns")?.unwrap_or(0)))
    }

    /// Puts frames on the wire as the JSON text asks.
    pub(crate) fn inject(&mut self, h: &mut dyn Host, text: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let objects = match &value {
            Value::Array(objects) => objects.as_slice(),
            object => std::slice::from_ref(object),
        };
        let turn = objects.iter().map(|object| self.injected(object));
        let turn: Vec<(Arrival, u64)> = turn.collect::<Result<_, _>>()?;
        let first = objects.first().and_then(Value::as_object);
        let count = number(first.ok_or("no frame")?, "count")?.unwrap_or(1);
        if count > MAX_COUNT {
            return Err("count: too large".to_owned());
        }
        let now = h.now();
        let mut earliest = now;
        for i in 0..count {
            for (arrival, gap) in &turn {
                let mut arrival = arrival.clone();
                if let Some((_, number)) = &mut arrival.sequence {
                    *number = i as u32;
                }
                earliest = self
                    .enqueue_arrival(now, earliest, arrival)
                    .saturating_add(*gap);
            }
        }
        self.settle(h);
        Ok(())
    }
}
