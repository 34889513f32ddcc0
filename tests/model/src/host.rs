// SPDX-License-Identifier: GPL-2.0
//! What the device needs from the machine around it.

/// The bus refused an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusError;

/// The machine around the device: time, memory, interrupt lines and the wire.
///
/// Every method may be called from inside any entry point of [`crate::Model`]; none may call back
/// into the model.
pub trait Host {
    /// Virtual time in nanoseconds. Never runs backwards.
    fn now(&mut self) -> u64;
    /// Reads memory as the bus shows it.
    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), BusError>;
    /// Writes memory as the bus shows it.
    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), BusError>;
    /// Drives interrupt line `line`; called on changes only.
    fn set_irq(&mut self, line: usize, level: bool);
    /// Asks for a call of [`crate::Model::timer`] at virtual time `deadline` (nanoseconds);
    /// replaces the previous request. `u64::MAX` cancels it.
    fn arm_timer(&mut self, deadline: u64);
    /// One frame leaves on the wire, without FCS.
    fn transmit(&mut self, frame: &[u8]);
    /// Report CPU accesses to `[addr, addr + len)` through [`crate::Model::watched`].
    fn watch(&mut self, addr: u64, len: u64);
    /// Ends all watch windows.
    fn unwatch_all(&mut self);
    /// One line for the log.
    fn log(&mut self, line: &str);
}

/// A host before there is a machine: no time, no memory, no wire.
#[derive(Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn now(&mut self) -> u64 {
        0
    }
    fn dma_read(&mut self, _addr: u64, _buf: &mut [u8]) -> Result<(), BusError> {
        Err(BusError)
    }
    fn dma_write(&mut self, _addr: u64, _data: &[u8]) -> Result<(), BusError> {
        Err(BusError)
    }
    fn set_irq(&mut self, _line: usize, _level: bool) {}
    fn arm_timer(&mut self, _deadline: u64) {}
    fn transmit(&mut self, _frame: &[u8]) {}
    fn watch(&mut self, _addr: u64, _len: u64) {}
    fn unwatch_all(&mut self) {}
    fn log(&mut self, _line: &str) {}
}
