// SPDX-License-Identifier: GPL-2.0
//! What a driver must not do. Each breach is counted under a stable name and logged.

use serde_json::{Map, Value};

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)*) => {
        /// A rule a driver can break. The documentation of each says what the breach is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule { $($(#[doc = $doc])+ $variant,)* }

        impl Rule {
            /// Every rule, in declaration order.
            pub const ALL: &'static [Rule] = &[$(Rule::$variant,)*];

            /// Stable name, as it appears in the log and in the property `violations`.
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$variant => $name,)* }
            }
        }
    };
}

rules! {
    /// A 1 was written to a reserved bit (K-drv: the C driver masks them; fixed in 2fe397a3959d).
    ReservedBit = "reserved-bit",
    /// A register was written in a mode that does not allow it (K-drv, A); the write is lost.
    WrongModeWrite = "wrong-mode-write",
    /// A read-only register was written.
    ReadOnlyWrite = "read-only-write",
    /// No register at this offset.
    UnmappedAccess = "unmapped-access",
    /// An access that is not 32 bits wide and aligned (K-drv: all accesses are 32 bits).
    BadAccess = "bad-access",
    /// A register was accessed while the module clock was off (K-ml c72a7e42592b).
    ClockOffAccess = "clock-off-access",
    /// A register was accessed while the reset line was asserted (A).
    InResetAccess = "in-reset-access",
    /// The clock was stopped in OPERATION mode: the DMA engine freezes in mid-access (A).
    ClockOffInOperation = "clock-off-in-operation",
    /// A mode change that skips CONFIG (A).
    ModeTransition = "mode-transition",
    /// A register was written while a change of the mode was on its way (K-ml 9039cd4c6163).
    ModeChangeNotAwaited = "mode-change-not-awaited",
    /// CCC.GAC or CSEL was changed without a change of mode (K-drv); they keep their value (A).
    GacWithoutMode = "gac-without-mode",
    /// A transmit request outside OPERATION mode (K-ml 6f32c0866020); it is lost.
    DoorbellOutsideOperation = "doorbell-outside-operation",
    /// A transmit request for a queue the device or the descriptor base table does not have.
    DoorbellUnusedQueue = "doorbell-unused-queue",
    /// Another E-MAC register than CXR35 was written first after reset (K-ml d78c0ced60d5).
    Cxr35NotFirst = "cxr35-not-first",
    /// CSR1 was written while CSR0.TPE reads 1 (K-ml); the write is lost.
    Csr1WhileTpe = "csr1-while-tpe",
    /// CSR2 was written while CSR0.RPE reads 1 (K-ml); the write is lost.
    Csr2WhileRpe = "csr2-while-rpe",
    /// A TX buffer is not 4-byte aligned (K-drv).
    TxUnaligned = "tx-unaligned",
    /// A TX data descriptor has size 0 (K-ml); the queue stalls.
    TxZeroLength = "tx-zero-length",
    /// A frame is longer than the transmitter takes (K-ml); the device freezes.
    TxTooLong = "tx-too-long",
    /// Data to be sent changed before its descriptor was given back: the buffer was freed too early
    /// (seen where the property `check-tx-buffers` is on).
    TxBufferChanged = "tx-buffer-changed",
    /// FSTART, FMID and FEND are out of order (K-ml); the queue stops with an error.
    TxSequence = "tx-sequence",
    /// A descriptor has a reserved type (K-gen2).
    ReservedType = "reserved-type",
    /// Link descriptors lead in a circle without a data descriptor.
    LinkLoop = "link-loop",
    /// The bus refused an access the descriptors asked for.
    DmaBusError = "dma-bus-error",
    /// A data buffer overlaps the descriptors themselves.
    DmaOutsideDescriptor = "dma-outside-descriptor",
    /// A descriptor was changed after it was given to the device (seen by watch windows).
    DescriptorTorn = "descriptor-torn",
    /// Frames are sent at another speed than the link has; they are lost (A).
    SpeedMismatch = "speed-mismatch",
    /// Frames are sent in another duplex mode than the link has (A).
    DuplexMismatch = "duplex-mismatch",
}

/// Log lines kept (and passed to the host) per rule; further breaches are only counted.
const LINES_PER_RULE: u64 = 50;

/// Breaches seen so far.
#[derive(Debug)]
pub struct Rules {
    counts: Vec<u64>,
    log: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            counts: vec![0; Rule::ALL.len()],
            log: Vec::new(),
        }
    }
}

impl Rules {
    /// Counts a breach. Returns the line to be logged unless this rule has logged enough.
    pub fn broken(&mut self, rule: Rule, detail: &str) -> Option<String> {
        let count = &mut self.counts[rule as usize];
        *count += 1;
        if *count > LINES_PER_RULE {
            return None;
        }
        let line = format!("rule {}: {detail}", rule.name());
        self.log.push(line.clone());
        Some(line)
    }

    /// Breaches of one rule.
    pub fn count(&self, rule: Rule) -> u64 {
        self.counts[rule as usize]
    }

    /// JSON object: rule name to number of breaches, broken rules only.
    pub fn counts_json(&self) -> Value {
        let broken = Rule::ALL.iter().filter(|rule| self.count(**rule) != 0);
        broken
            .map(|r| (r.name().to_owned(), self.count(*r).into()))
            .collect::<Map<_, _>>()
            .into()
    }

    /// JSON array of the log lines.
    pub fn log_json(&self) -> Value {
        self.log.clone().into()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
