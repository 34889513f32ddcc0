// SPDX-License-Identifier: GPL-2.0
//! QEMU's control protocol: one JSON object per line over a unix socket.

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A monitor connection.
pub(crate) struct Qmp {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Qmp {
    /// Takes over a fresh connection and leaves negotiation mode.
    pub(crate) fn new(stream: UnixStream) -> Result<Qmp> {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut qmp = Qmp {
            writer: stream.try_clone()?,
            reader: BufReader::new(stream),
        };
        let greeting = qmp.read()?;
        if greeting.get("QMP").is_none() {
            bail!("unexpected greeting from QEMU: {greeting}");
        }
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        let count = self
            .reader
            .read_line(&mut line)
            .context("QEMU's monitor does not answer")?;
        if count == 0 {
            bail!("QEMU closed its monitor");
        }
        serde_json::from_str(&line).with_context(|| format!("QEMU's monitor said {line}"))
    }

    /// Runs one command and returns what it returns; events are passed over.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.writer, "{request}").context("QEMU's monitor is closed")?;
        loop {
            let mut answer = self.read()?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                bail!(
                    "QEMU refused {command}: {}",
                    error["desc"].as_str().unwrap_or("no reason")
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_passed_over_and_errors_reported() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut reader = BufReader::new(theirs.try_clone().unwrap());
            let mut writer = theirs;
            writeln!(writer, r#"{{"QMP": {{"version": {{}}}}}}"#).unwrap();
            let answers = [
                r#"{"return": {}}"#,
                "{\"event\": \"RESET\"}\n{\"return\": 7}",
                r#"{"error": {"class": "GenericError", "desc": "no such path"}}"#,
            ];
            for answer in answers {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                writeln!(writer, "{answer}").unwrap();
            }
        });
        let mut qmp = Qmp::new(ours).unwrap();
        assert_eq!(qmp.execute("x", json!({})).unwrap(), json!(7));
        let error = qmp.execute("qom-get", json!({})).unwrap_err().to_string();
        assert_eq!(error, "QEMU refused qom-get: no such path");
        server.join().unwrap();
    }
}
