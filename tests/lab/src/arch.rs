// SPDX-License-Identifier: GPL-2.0
//! The architectures that guests have.

/// An architecture: everything by which the lab tells one from another.
#[derive(Debug)]
pub(crate) struct Arch {
    /// Debian's name.
    pub(crate) debian: &'static str,
    /// Directory of libraries in Debian.
    pub(crate) triple: &'static str,
    /// Console device of the machine.
    pub(crate) console: &'static str,
    /// The QEMU program that emulates it.
    pub(crate) emulator: Emulator,
    /// Options of the machine.
    pub(crate) machine: &'static str,
    /// Processor.
    pub(crate) cpu: &'static str,
}

/// The QEMU programs, by the name of their target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Emulator {
    /// 64-bit and 32-bit arm.
    Aarch64,
    /// riscv64.
    Riscv64,
}

impl Emulator {
    /// Name of the target.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Emulator::Aarch64 => "aarch64",
            Emulator::Riscv64 => "riscv64",
        }
    }
}

/// RZ/G2L, R-Car Gen3 and Gen4, RZ/V2M.
pub(crate) static ARM64: Arch = Arch {
    debian: "arm64",
    triple: "aarch64-linux-gnu",
    console: "ttyAMA0",
    emulator: Emulator::Aarch64,
    machine: ",dtb-randomness=off",
    cpu: "cortex-a55",
};

/// RZ/Five.
pub(crate) static RISCV64: Arch = Arch {
    debian: "riscv64",
    triple: "riscv64-linux-gnu",
    console: "ttyS0",
    emulator: Emulator::Riscv64,
    machine: "",
    // Uncached memory, for a device that is not coherent.
    cpu: "rv64,svpbmt=on",
};

/// R-Car Gen2.
pub(crate) static ARM: Arch = Arch {
    debian: "armhf",
    triple: "arm-linux-gnueabihf",
    console: "ttyAMA0",
    emulator: Emulator::Aarch64,
    machine: ",dtb-randomness=off",
    cpu: "cortex-a15",
};
