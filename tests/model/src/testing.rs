// SPDX-License-Identifier: GPL-2.0
//! A machine small enough for tests: memory, a clock that runs when told to, a wire that keeps
//! what was sent.

use crate::host::{BusError, Host};
use crate::model::Model;

/// Interrupt lines a [`Memory`] keeps the level of.
const LINES: usize = 32;

/// One successful access of the device to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Written, not read.
    pub is_write: bool,
    /// Where.
    pub addr: u64,
    /// What was read or written.
    pub data: Vec<u8>,
}

/// Memory, time, lines and the wire.
#[derive(Debug)]
pub struct Memory {
    /// Virtual time in nanoseconds.
    pub now: u64,
    /// Requested timer deadline.
    pub deadline: u64,
    /// Memory; starts at [`Memory::BASE`].
    pub ram: Vec<u8>,
    /// Level of every interrupt line.
    pub lines: [bool; LINES],
    /// Frames that left, with the time their last bit did.
    pub sent: Vec<(u64, Vec<u8>)>,
    /// Address and length of open watch windows.
    pub windows: Vec<(u64, u64)>,
    /// Log lines.
    pub log: Vec<String>,
    /// What the device has read and written, if recorded.
    pub accesses: Option<Vec<Access>>,
}

impl Memory {
    /// Where memory starts; everything else is a bus error.
    pub const BASE: u64 = 0x4000_0000;

    /// `size` bytes of zeroes.
    pub fn new(size: usize) -> Self {
        Self {
            now: 0,
            deadline: u64::MAX,
            ram: vec![0; size],
            lines: [false; LINES],
            sent: Vec::new(),
            windows: Vec::new(),
            log: Vec::new(),
            accesses: None,
        }
    }

    fn range(&self, addr: u64, len: usize) -> Result<std::ops::Range<usize>, BusError> {
        let start = addr.checked_sub(Self::BASE).ok_or(BusError)?;
        let start = usize::try_from(start).map_err(|_| BusError)?;
        let end = start
            .checked_add(len)
            .filter(|end| *end <= self.ram.len())
            .ok_or(BusError)?;
        Ok(start..end)
    }

    /// Memory at `addr`. Panics outside memory: tests know what they look at.
    pub fn at(&self, addr: u64, len: usize) -> &[u8] {
        match self.range(addr, len) {
            Ok(range) => &self.ram[range],
            Err(BusError) => panic!("no memory at {addr:#x}"),
        }
    }

    /// Stores bytes, as a CPU would. Panics outside memory.
    pub fn store(&mut self, addr: u64, data: &[u8]) {
        match self.range(addr, data.len()) {
            Ok(range) => self.ram[range].copy_from_slice(data),
            Err(BusError) => panic!("no memory at {addr:#x}"),
        }
    }
}

impl Host for Memory {
    fn now(&mut self) -> u64 {
        self.now
    }
    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), BusError> {
        buf.copy_from_slice(&self.ram[self.range(addr, buf.len())?]);
        if let Some(accesses) = &mut self.accesses {
            accesses.push(Access {
                is_write: false,
                addr,
                data: buf.to_vec(),
            });
        }
        Ok(())
    }
    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), BusError> {
        let range = self.range(addr, data.len())?;
        self.ram[range].copy_from_slice(data);
        if let Some(accesses) = &mut self.accesses {
            accesses.push(Access {
                is_write: true,
                addr,
                data: data.to_vec(),
            });
        }
        Ok(())
    }
    fn set_irq(&mut self, line: usize, level: bool) {
        self.lines[line] = level;
    }
    fn arm_timer(&mut self, deadline: u64) {
        self.deadline = deadline;
    }
    fn transmit(&mut self, frame: &[u8]) {
        self.sent.push((self.now, frame.to_vec()));
    }
    fn watch(&mut self, addr: u64, len: u64) {
        self.windows.push((addr, len));
    }
    fn unwatch_all(&mut self) {
        self.windows.clear();
    }
    fn log(&mut self, line: &str) {
        self.log.push(line.to_owned());
    }
}

/// A model in a machine.
#[derive(Debug)]
pub struct Machine {
    /// The device.
    pub model: Model,
    /// What is around it.
    pub host: Memory,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A machine with 1 MiB of memory and a GbEth, its clock on and its reset released.
    pub fn new() -> Self {
        Self::of("gbeth")
    }

    /// The same with another member of the family; panics if there is none of this name.
    pub fn of(variant: &str) -> Self {
        let mut machine = Self {
            model: Model::new(),
            host: Memory::new(1 << 20),
        };
        machine.set("variant", variant);
        machine.model.attached(&mut machine.host);
        machine.model.set_reset(&mut machine.host, false);
        machine.model.set_clock(&mut machine.host, true);
        machine
    }

    /// Register read.
    pub fn read(&mut self, offset: u16) -> u32 {
        self.model.read(&mut self.host, offset.into())
    }

    /// Register write.
    pub fn write(&mut self, offset: u16, value: u32) {
        self.model.write(&mut self.host, offset.into(), value);
    }

    /// Sets a property; panics if the model refuses.
    pub fn set(&mut self, name: &str, value: &str) {
        if let Err(message) = self.model.set(&mut self.host, name, value) {
            panic!("{message}");
        }
    }

    /// A JSON property, parsed. Panics if there is none of this name.
    pub fn json(&self, name: &str) -> serde_json::Value {
        match self.model.get(name).map(|text| serde_json::from_str(&text)) {
            Some(Ok(value)) => value,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Lets virtual time pass, running the device's timer whenever it is due.
    pub fn run(&mut self, ns: u64) {
        let end = self.host.now + ns;
        while self.host.deadline <= end {
            self.host.now = self.host.now.max(self.host.deadline);
            self.host.deadline = u64::MAX;
            self.model.timer(&mut self.host);
        }
        self.host.now = end;
    }

    /// A frame from the network.
    pub fn receive(&mut self, frame: &[u8]) {
        self.model.receive(&mut self.host, frame);
    }

    /// A store of a CPU of at most 8 bytes, reported if a watch window covers it.
    pub fn cpu_store(&mut self, addr: u64, data: &[u8]) {
        self.host.store(addr, data);
        let mut value = [0; 8];
        value[..data.len()].copy_from_slice(data);
        self.report(addr, data.len(), true, u64::from_le_bytes(value));
    }

    /// A load of a CPU of at most 8 bytes, reported if a watch window covers it.
    pub fn cpu_load(&mut self, addr: u64, len: usize) -> u64 {
        let mut value = [0; 8];
        value[..len].copy_from_slice(self.host.at(addr, len));
        let value = u64::from_le_bytes(value);
        self.report(addr, len, false, value);
        value
    }

    fn report(&mut self, addr: u64, len: usize, is_write: bool, value: u64) {
        let watched = |(start, size): &(u64, u64)| (*start..start + size).contains(&addr);
        if self.host.windows.iter().any(watched) {
            self.model
                .watched(&mut self.host, addr, len as u32, is_write, value);
        }
    }
}
