// SPDX-License-Identifier: GPL-2.0

//! The hardware: registers, operating modes, and what differs between the SoC families.
//!
//! Abbreviations of the hardware manual:
//!
//! - AVB-DMAC: the DMA controller, registers 0x000 to 0x4ff; E-MAC: the MAC, 0x500 to 0x7ff.
//! - TOE: TCP/IP offload engine, the checksum unit that only GbEth has, from 0x800.
//! - DBAT: descriptor base address table, one entry for each queue.
//! - BE and NC: best effort and network control, the queues 0 and 1.
//!
//! All registers are 32 bits wide. Status registers of the DMAC are cleared by writing 0 to a bit;
//! writing 1 leaves it alone, but reserved bits must be written 0.
//!
//! What the generations have in common is in [`Regs`]; what they differ in is a [`Variant`] each:
//! constants, and an implementation of [`Generation`] for what is none.

mod etheravb;
mod gbeth;
mod variants;

use kernel::{
    clk::OptionalClk,
    device::{
        Bound,
        Device, //
    },
    io::{
        mem::IoMem,
        poll,
        register,
        register::Register as _,
        Io, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        new_mutex,
        new_spinlock_irq,
        Arc,
        Mutex,
        SpinLockIrq, //
    },
    time::Delta, //
};

use crate::{
    net::{
        netdev::{
            Features,
            MacAddress, //
        },
        page_pool::Layout,
        phy::{
            self,
            Interface,
            Link, //
        },
        pm,
        reset, //
    },
    ravb_stats::HwCounters, //
};

pub(crate) use variants::TABLE;

register! {
    /// AVB-DMAC mode.
    pub(crate) CCC(u32) @ 0x000 {
        /// Requested operating mode; CSR shows the present one.
        1:0 opc;
        /// EtherAVB: the gPTP timer runs in CONFIG mode too. Taken over with a change of the mode.
        7:7 gac => bool;
        /// Request to suspend data transfer.
        8:8 dtsr => bool;
        /// EtherAVB: clock of the gPTP timer; 1 is the peripheral clock.
        17:16 csel;
    }

    /// Descriptor base address table: its bus address.
    pub(crate) DBAT(u32) @ 0x004 {
        31:0 address;
    }

    /// AVB-DMAC status.
    pub(crate) CSR(u32) @ 0x00c {
        /// Operating mode, one bit for each.
        3:0 ops;
        /// Data transfer is suspended.
        8:8 dts => bool;
        /// Transmission in progress, one bit for each queue.
        19:16 tpo;
        /// Reception in progress.
        20:20 rpo => bool;
    }

    /// EtherAVB: product specific register.
    pub(crate) APSR(u32) @ 0x08c {
        /// Receive clock delay, 1.8 ns.
        13:13 rdm => bool;
        /// Transmit clock delay, 2.0 ns.
        14:14 tdm => bool;
        /// Gen4: MII instead of RGMII.
        24:24 miiselect => bool;
    }

    /// Receive configuration.
    pub(crate) RCR(u32) @ 0x090 {
        /// Frames with errors are stored, and their status says so.
        0:0 effs => bool;
        /// Network control frames go to queue 1.
        1:1 encf => bool;
        /// Stream filter: 3 is the separation by stream ID.
        3:2 esf;
        /// Descriptors of queues 0 and 1 have timestamps.
        4:4 ets0 => bool;
        /// Fill level of the receive FIFO at which a warning is raised; the field is wider on
        /// GbEth, where the lower half of the register is reserved.
        30:16 rfcl;
    }

    /// Receive truncation lengths.
    pub(crate) RTC(u32) @ 0x0b4 {
        /// Longest frame that is not truncated, selected by default.
        15:0 mfl0;
        /// The same, for queues that select it.
        31:16 mfl1;
    }

    /// Transmit configuration.
    pub(crate) TGC(u32) @ 0x300 {
        /// How the transmit FIFO is divided.
        23:8 tbd;
        /// How the queues share the wire: 1 is AVB mode 1.
        5:4 tqp;
    }

    /// Transmit control.
    pub(crate) TCCR(u32) @ 0x304 {
        /// Transmit start request, one bit for each queue. Writing 0 to a bit does nothing, so that
        /// a request needs no read of the register.
        3:0 tsrq;
        /// Timestamp FIFO on.
        8:8 tfen => bool;
    }

    /// Interrupt mask of descriptors that ask for one.
    pub(crate) DIC(u32) @ 0x350 {
        15:1 descriptors;
    }

    /// Error interrupt mask.
    pub(crate) EIC(u32) @ 0x358 {
        /// Errors that are not used here.
        10:0 errors;
    }

    /// Error status.
    pub(crate) EIS(u32) @ 0x35c {
        /// Errors that are not used here.
        10:0 errors;
        /// A cause in RIS2.
        16:16 qfs => bool;
    }

    /// Receive interrupt mask: frame received, one bit for each queue.
    pub(crate) RIC0(u32) @ 0x360 {
        17:0 fre;
    }

    /// Receive status: frame received, one bit for each queue.
    pub(crate) RIS0(u32) @ 0x364 {
        17:0 frf;
    }

    /// Receive interrupt mask: warnings.
    pub(crate) RIC1(u32) @ 0x368 {
        31:0 warnings;
    }

    /// Receive interrupt mask: no descriptor, or no room in the FIFO.
    pub(crate) RIC2(u32) @ 0x370 {
        17:0 qfe;
        31:31 rffe => bool;
    }

    /// Receive status: no descriptor, or no room in the FIFO.
    pub(crate) RIS2(u32) @ 0x374 {
        /// A frame was dropped because its queue had no free descriptor.
        17:0 qff;
        /// A frame was dropped because the receive FIFO was full.
        31:31 rfff => bool;
    }

    /// Transmit interrupt mask.
    pub(crate) TIC(u32) @ 0x378 {
        /// Frame transmitted, one bit for each queue.
        3:0 fte;
    }

    /// Transmit status.
    pub(crate) TIS(u32) @ 0x37c {
        /// Frame transmitted, one bit for each queue.
        3:0 ftf;
        /// Timestamp and MAC status FIFO.
        11:8 fifo;
        /// Descriptor processed, one bit for each queue.
        19:16 tdpf;
    }

    /// Interrupt summary: what of the status registers is not masked.
    pub(crate) ISS(u32) @ 0x380 {
        /// RIS0.
        0:0 frs => bool;
        /// TIS, frame transmitted.
        2:2 fts => bool;
        /// EIS or RIS2.
        6:6 es => bool;
        /// E-MAC.
        7:7 ms => bool;
    }

    /// EtherAVB with a line for each queue: interrupt control.
    pub(crate) CIE(u32) @ 0x384 {
        /// Received frames raise the line of their queue.
        0:0 crie => bool;
        /// Transmitted frames raise the line of their queue.
        8:8 ctie => bool;
        /// And not the common line.
        17:17 cl0m => bool;
    }

    /// Receive interrupt mask: descriptor processed, one bit for each queue.
    pub(crate) RIC3(u32) @ 0x388 {
        17:0 rde;
    }

    /// EtherAVB: interrupt mask of the gPTP timer.
    pub(crate) GIC(u32) @ 0x3ac {
        31:0 events;
    }

    /// EtherAVB with a line for each queue: which of two lines a descriptor interrupt raises.
    pub(crate) DIL(u32) @ 0x440 {
        31:0 line_b;
    }

    /// Gen3 and Gen4: ones set bits of RIC0.
    pub(crate) RIE0(u32) @ 0x460 {
        17:0 frs;
    }

    /// Gen3 and Gen4: ones clear bits of RIC0.
    pub(crate) RID0(u32) @ 0x464 {
        17:0 frd;
    }

    /// Gen3 and Gen4: ones set bits of TIC.
    pub(crate) TIE(u32) @ 0x478 {
        3:0 fts;
    }

    /// Gen3 and Gen4: ones clear bits of TIC.
    pub(crate) TID(u32) @ 0x47c {
        3:0 ftd;
    }

    /// E-MAC mode.
    pub(crate) ECMR(u32) @ 0x500 {
        /// Promiscuous: frames for any address are received.
        0:0 prm => bool;
        /// Full duplex.
        1:1 dm => bool;
        /// Transmitter on.
        5:5 te => bool;
        /// Receiver on.
        6:6 re => bool;
        /// EtherAVB: magic packets are looked for.
        9:9 mpde => bool;
        /// PAUSE frames from the wire are obeyed.
        17:17 rxf => bool;
        /// PAUSE frames with a time of 0 are sent and obeyed.
        19:19 zpf => bool;
        /// EtherAVB: the sum of a received frame is appended to it.
        23:23 rcsc => bool;
        /// Received CRCs are passed to the TOE.
        25:25 rcpt => bool;
    }

    /// Receive frame length limit, with the CRC.
    pub(crate) RFLR(u32) @ 0x508 {
        17:0 rfl;
    }

    /// E-MAC status; writing 1 clears a bit.
    pub(crate) ECSR(u32) @ 0x510 {
        /// Illegal carrier.
        0:0 icd => bool;
        /// Magic packet.
        1:1 mpd => bool;
        /// The link pin changed.
        2:2 lchng => bool;
        /// PAUSE retransmit limit.
        4:4 pfri => bool;
    }

    /// E-MAC interrupt mask.
    pub(crate) ECSIPR(u32) @ 0x518 {
        0:0 icdip => bool;
        1:1 mpdip => bool;
        2:2 lchngip => bool;
    }

    /// The pins of the MDIO bus.
    pub(crate) PIR(u32) @ 0x520 {
        /// Clock.
        0:0 mdc => bool;
        /// The data pin is an output.
        1:1 mmd => bool;
        /// Data out.
        2:2 mdo => bool;
        /// Data in.
        3:3 mdi => bool;
    }

    /// The link pin.
    pub(crate) PSR(u32) @ 0x528 {
        /// Its level.
        0:0 lmon => bool;
    }

    /// GbEth: link signals of the PHY.
    pub(crate) CXR31(u32) @ 0x530 {
        0:0 sel_link0 => bool;
        3:3 sel_link1 => bool;
    }

    /// GbEth: interface to the PHY.
    pub(crate) CXR35(u32) @ 0x540 {
        /// 0 is RGMII, 2 is MII.
        1:0 sel_xmii;
        /// Cycles that a switch of the clock takes.
        31:16 halfcyc_clksw;
    }

    /// Speed.
    pub(crate) GECMR(u32) @ 0x5b0 {
        /// EtherAVB: 0 is 100, 1 is 1000 Mbit/s.
        0:0 gigabit => bool;
        /// GbEth: 0 is 10, 1 is 100, 2 is 1000 Mbit/s.
        5:4 speed;
    }

    /// MAC address, first four bytes.
    pub(crate) MAHR(u32) @ 0x5c0 {
        31:0 bytes;
    }

    /// MAC address, last two bytes.
    pub(crate) MALR(u32) @ 0x5c8 {
        15:0 bytes;
    }

    /// PAUSE frames that were obeyed; any write clears it.
    pub(crate) PFRCR(u32) @ 0x560 {
        31:0 count;
    }

    /// Frames that were not transmitted in time; any write clears it.
    pub(crate) TROCR(u32) @ 0x700 {
        31:0 count;
    }

    /// Frames received with a bad CRC; any write clears it.
    pub(crate) CEFCR(u32) @ 0x740 {
        31:0 count;
    }

    /// Frames received that the PHY flagged; any write clears it.
    pub(crate) FRECR(u32) @ 0x748 {
        31:0 count;
    }

    /// Frames received that were too short; any write clears it.
    pub(crate) TSFRCR(u32) @ 0x750 {
        31:0 count;
    }

    /// Frames received that were too long; any write clears it.
    pub(crate) TLFRCR(u32) @ 0x758 {
        31:0 count;
    }

    /// Frames received that did not end on a byte; any write clears it.
    pub(crate) RFCR(u32) @ 0x760 {
        31:0 count;
    }

    /// GbEth: collisions; any write clears it.
    pub(crate) CXR41(u32) @ 0x708 {
        31:0 count;
    }

    /// GbEth: carrier errors; any write clears it.
    pub(crate) CXR42(u32) @ 0x710 {
        31:0 count;
    }

    /// TOE: the two directions. Nothing flows in a direction that is off.
    pub(crate) CSR0(u32) @ 0x800 {
        /// Transmission.
        4:4 tpe => bool;
        /// Reception.
        5:5 rpe => bool;
    }

    /// TOE: checksums to compute; written only while `CSR0.tpe` reads 0.
    pub(crate) CSR1(u32) @ 0x804 {
        4:4 tcp4 => bool;
        5:5 udp4 => bool;
        20:20 tcp6 => bool;
        21:21 udp6 => bool;
    }

    /// TOE: checksums to verify; written only while `CSR0.rpe` reads 0.
    pub(crate) CSR2(u32) @ 0x808 {
        4:4 tcp4 => bool;
        5:5 udp4 => bool;
        6:6 icmp4 => bool;
        20:20 tcp6 => bool;
        21:21 udp6 => bool;
        22:22 icmp6 => bool;
    }
}

/// The registers that every variant has.
const WINDOW: usize = 0x800;

/// The bits of RIS0 and its masks that are not reserved.
const RIS0_BITS: u32 = 0x0003_ffff;
/// The bits of TIS and its masks that are not reserved.
const TIS_BITS: u32 = 0x000f_0f0f;

/// How long the hardware may take for what takes microseconds when it is idle: as long as the C
/// driver waits. A frame of 8 KiB takes 7 ms at 10 Mbit/s, and a mode changes behind it.
const HW_TIMEOUT: Delta = Delta::from_millis(100);

/// Those whose reading has no effect: no counters, and nothing that takes from a FIFO.
const READABLE: &[usize] = &[
    CCC::OFFSET,
    DBAT::OFFSET,
    CSR::OFFSET,
    RCR::OFFSET,
    RTC::OFFSET,
    TGC::OFFSET,
    TCCR::OFFSET,
    EIS::OFFSET,
    RIC0::OFFSET,
    RIS0::OFFSET,
    RIC1::OFFSET,
    RIC2::OFFSET,
    RIS2::OFFSET,
    TIC::OFFSET,
    TIS::OFFSET,
    ISS::OFFSET,
    ECMR::OFFSET,
    RFLR::OFFSET,
    ECSR::OFFSET,
    ECSIPR::OFFSET,
    PIR::OFFSET,
    PSR::OFFSET,
    GECMR::OFFSET,
    MAHR::OFFSET,
    MALR::OFFSET,
];

/// The largest number of queues of a direction.
pub(crate) const MAX_QUEUES: usize = 2;

/// A queue of both directions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueId {
    /// What every variant has.
    BestEffort = 0,
    /// PTP, and other protocols that keep the network going.
    NetworkControl = 1,
}

impl QueueId {
    /// All queues, of which a device may have the first alone.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [Self::BestEffort, Self::NetworkControl].into_iter()
    }

    /// The queues whose bits are set.
    fn of_bits(bits: u32) -> impl Iterator<Item = Self> {
        Self::all().filter(move |queue| bits & queue.bit() != 0)
    }

    /// The number of the queue.
    pub(crate) const fn index(self) -> u16 {
        self as u16
    }

    /// Its place in an array of [`MAX_QUEUES`].
    pub(crate) const fn slot(self) -> usize {
        self as usize
    }

    /// The bit of the queue in masks and status registers.
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Adds the value of a counting register to a counter, and clears the register.
macro_rules! collect {
    ($io:expr, $register:ident, $counter:expr) => {
        $counter.add(u64::from($io.read($register).into_raw()));
        $io.write_reg($register::zeroed());
    };
}
use collect;

/// Frames that were lost.
pub(crate) struct Losses<Q: Iterator<Item = QueueId>> {
    /// The queues that had no descriptor for a frame.
    pub(crate) queues: Q,
    /// The receive FIFO had no room.
    pub(crate) fifo: bool,
}

/// Operating modes of the DMAC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything stands still and is reset.
    Reset = 0,
    /// The DMAC can be configured.
    Config = 1,
    /// Frames flow.
    Operation = 2,
}

/// What the hardware appends to a received frame to tell of its checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trailer {
    /// Two verdicts of 16 bits, of the IP header and of the payload.
    Verdicts,
    /// The sum of everything behind the Ethernet header, 16 bits.
    Sum,
}

/// How frames are received.
#[derive(Clone, Copy)]
pub(crate) struct RxFormat {
    /// Words of a descriptor: 2, or 5 with a timestamp.
    pub(crate) words: usize,
    /// Buffers.
    pub(crate) layout: Layout,
    /// What is appended.
    pub(crate) trailer: Trailer,
    /// The MAC counts frames with errors, whether or not it stores them.
    pub(crate) errors_counted: bool,
}

/// What an interrupt line tells of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Everything; the line may be shared.
    All,
    /// Frames received or transmitted by a queue.
    Queue(QueueId),
    /// Errors, and what else is not about frames.
    Errors,
    /// The E-MAC.
    Emac,
}

/// An interrupt line.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// Its name in the device tree; `None` is the first one.
    pub(crate) name: Option<&'static CStr>,
    /// What it is called in `/proc/interrupts`, behind the name of the device.
    pub(crate) label: &'static str,
    /// What it tells of.
    pub(crate) cause: Cause,
}

/// A kind of hardware, by what is constant about it.
pub(crate) struct Variant {
    /// What it does.
    generation: &'static dyn Generation,
    /// Queues of each direction.
    pub(crate) queues: u16,
    /// The longest frame that may be handed to the hardware, without CRC, in bytes.
    pub(crate) max_tx_frame: usize,
    /// The longest frame that can be received, without CRC, in bytes.
    max_rx_frame: u32,
    /// How frames are received.
    pub(crate) rx: RxFormat,
    /// What the address of data to transmit must be a multiple of, in bytes.
    pub(crate) tx_alignment: usize,
    /// What the hardware computes.
    pub(crate) features: Features,
    /// What it can do besides, when the user asks for it.
    pub(crate) optional_features: Features,
    /// What the PHY must not offer.
    pub(crate) phy_restriction: phy::Restriction,
    /// The MAC recognises magic packets.
    pub(crate) magic_packets: bool,
    /// Small cores: interrupts are to be deferred in software.
    pub(crate) coalesce: bool,
    /// Delays of RGMII that the MAC can insert.
    delays: Delays,
    /// SoCs that cannot delay the transmit clock, by what they are compatible with.
    no_tx_delay: &'static [&'static CStr],
    /// The E-MAC reports a link pin.
    link_pin: bool,
    /// The clock of the gPTP timer, where that has one of its own.
    pub(crate) gptp_clock: Option<&'static CStr>,
    /// The interrupt lines.
    pub(crate) lines: &'static [Line],
}

impl Variant {
    /// The delays that the MAC of `dev` can insert.
    fn delays_of(&self, dev: &Device<Bound>) -> Delays {
        let is = |name: &&CStr| {
            let node = dev.fwnode();
            node.is_some_and(|node| node.property_match_string(c"compatible", name).is_ok())
        };
        Delays {
            tx: self.delays.tx && !self.no_tx_delay.iter().any(is),
            ..self.delays
        }
    }

    /// Interprets what the device tree of `dev` says of the wiring; delays are in ps.
    ///
    /// Old device trees ask for delays by the mode, without a property. A delay that the MAC then
    /// inserts, the PHY must not insert again: it is asked for the rest.
    pub(crate) fn wiring(
        &self,
        dev: &Device<Bound>,
        interface: Interface,
        rx_delay: Option<u32>,
        tx_delay: Option<u32>,
        link_pin: Option<LinkPin>,
    ) -> Wiring {
        let is = |rx, tx| interface == Interface::rgmii(rx, tx);
        let by_mode = rx_delay.is_none() && tx_delay.is_none();
        let (rx, tx) = if by_mode {
            let both = is(true, true);
            (both || is(true, false), both || is(false, true))
        } else {
            let wanted = |delay: Option<u32>| delay.is_some_and(|ps| ps != 0);
            (wanted(rx_delay), wanted(tx_delay))
        };
        let possible = self.delays_of(dev);
        let delays = Delays {
            rx: rx && possible.rx,
            tx: tx && possible.tx,
        };
        Wiring {
            interface: if by_mode && delays != Delays::NONE {
                Interface::rgmii(rx && !delays.rx, tx && !delays.tx)
            } else {
                interface
            },
            delays,
            link_pin: link_pin.filter(|_| self.link_pin),
        }
    }
}

/// What the generations do in different ways.
///
/// A new one is an implementation of this, in a file below `ravb_hw/`, and a [`Variant`].
trait Generation: Sync {
    /// Registers that not all have and whose reading has no effect, by their offsets.
    fn readable(&self) -> &'static [usize];

    /// Enters CONFIG mode.
    fn enter_config(&self, regs: &Regs<'_>) -> Result {
        regs.set_mode(Mode::Config)
    }

    /// Sets up the DMAC, in CONFIG mode, but for the masks of the queues.
    fn init_dmac(&self, regs: &Regs<'_>);

    /// Sets up what of the E-MAC must be first.
    fn init_emac_first(&self, regs: &Regs<'_>);

    /// Sets up the rest.
    fn init_emac_last(&self, regs: &Regs<'_>, tx_checksum: bool) -> Result;

    /// The bits of the E-MAC mode that are always the same, or depend on the duplex mode.
    fn emac_mode(&self, full_duplex: bool) -> ECMR;

    /// The value of the speed register, for a speed in Mbit/s.
    fn speed(&self, speed: u32) -> GECMR;

    /// Switches the computation of checksums on or off, with traffic going on. May sleep.
    fn set_tx_checksum(&self, _regs: &Regs<'_>, _on: bool) -> Result {
        Ok(())
    }

    /// Masks the receive and transmit interrupts of a queue.
    fn mask_queue(&self, regs: &Regs<'_>, queue: QueueId);

    /// Unmasks the receive and transmit interrupts of a queue.
    fn unmask_queue(&self, regs: &Regs<'_>, queue: QueueId);

    /// Masks interrupts that nobody asked for, of registers that not all have, and lets those that
    /// are asked for raise the lines that they are expected on.
    fn mask_strays(&self, _regs: &Regs<'_>) {}

    /// Adds what the hardware counted since the last time, and lets it start anew.
    fn collect(&self, _regs: &Regs<'_>, _counters: &HwCounters) {}
}

/// What the device tree says of the wiring.
pub(crate) struct Wiring {
    /// Between MAC and PHY.
    pub(crate) interface: Interface,
    /// Delays of the MAC, where it has any.
    pub(crate) delays: Delays,
    /// What the link pin means, if it is wired.
    pub(crate) link_pin: Option<LinkPin>,
}

/// Delays of clock signals that the MAC inserts, or can insert.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delays {
    /// 1.8 ns on the receive clock.
    pub(crate) rx: bool,
    /// 2.0 ns on the transmit clock.
    pub(crate) tx: bool,
}

impl Delays {
    /// None.
    const NONE: Self = Self {
        rx: false,
        tx: false,
    };
}

/// Which level of the link pin means that there is a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkPin {
    /// High.
    ActiveHigh,
    /// Low.
    ActiveLow,
}

/// Masks of the queues, where all queues share a register.
#[derive(Clone, Copy, Default)]
struct QueueMasks {
    enabled: u32,
}

/// A device that is bound.
#[pin_data]
pub(crate) struct Hw<'bound> {
    dev: &'bound Device<Bound>,
    io: IoMem<'bound, WINDOW>,
    toe: Option<IoMem<'bound, { gbeth::WINDOW }>>,
    runtime: pm::Runtime<'bound>,
    refclk: OptionalClk,
    reset: &'bound reset::Control,
    pub(crate) variant: &'bound Variant,
    pub(crate) wiring: Wiring,
    #[pin]
    masks: SpinLockIrq<QueueMasks>,
    /// The interrupt that tells of lost frames is masked.
    losses_masked: AtomicFlag,
    /// The queues in use, one bit each.
    queues: Atomic<u32>,
    /// Whether the interface is up. Who holds the lock may change the operating mode, and nobody
    /// else does.
    #[pin]
    pub(crate) up: Mutex<bool>,
}

impl<'bound> Hw<'bound> {
    /// Collects what makes up the hardware.
    pub(crate) fn new(
        pdev: &'bound kernel::platform::Device<Bound>,
        runtime: pm::Runtime<'bound>,
        refclk: OptionalClk,
        reset: &'bound reset::Control,
        variant: &'bound Variant,
        wiring: Wiring,
    ) -> Result<Arc<Self>> {
        let window = || pdev.io_request_by_index(0).ok_or(EINVAL);
        let toe = if variant.rx.trailer == Trailer::Verdicts {
            Some(window()?.iomap_sized::<{ gbeth::WINDOW }>()?)
        } else {
            None
        };

        Arc::pin_init(
            try_pin_init!(Self {
                dev: pdev.as_ref(),
                io: window()?.iomap_sized::<WINDOW>()?,
                toe,
                runtime,
                refclk,
                reset,
                variant,
                wiring,
                masks <- new_spinlock_irq!(QueueMasks::default()),
                losses_masked: AtomicFlag::new(false),
                queues: Atomic::new(0),
                up <- new_mutex!(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The device.
    pub(crate) fn dev(&self) -> &'bound Device<Bound> {
        self.dev
    }

    /// Whether PAUSE frames from the wire are obeyed; none are sent.
    pub(crate) fn obeys_pause(&self) -> bool {
        self.variant.generation.emac_mode(true).rxf()
    }

    /// How many words the register window has.
    pub(crate) fn words(&self) -> usize {
        let bytes = if self.toe.is_some() {
            gbeth::WINDOW
        } else {
            WINDOW
        };
        bytes / size_of::<u32>()
    }

    /// The reset line.
    pub(crate) fn reset(&self) -> &reset::Control {
        self.reset
    }
}

/// The registers, reachable because the clocks are on. May sleep when it is made and dropped.
pub(crate) struct Regs<'bound> {
    hw: Arc<Hw<'bound>>,
    _refclk: ClockOn<'bound>,
    // After the clock: the device is suspended last.
    _active: pm::Active<'bound>,
}

/// A share in the reference clock.
struct ClockOn<'bound>(Arc<Hw<'bound>>);

impl<'bound> ClockOn<'bound> {
    fn new(hw: &Arc<Hw<'bound>>) -> Result<Self> {
        hw.refclk.prepare_enable()?;
        Ok(Self(hw.clone()))
    }
}

impl Drop for ClockOn<'_> {
    fn drop(&mut self) {
        self.0.refclk.disable_unprepare();
    }
}

impl<'bound> Regs<'bound> {
    /// Switches the clocks on.
    pub(crate) fn new(hw: &Arc<Hw<'bound>>) -> Result<Self> {
        let active = hw.runtime.resume()?;
        Ok(Self {
            hw: hw.clone(),
            _refclk: ClockOn::new(hw)?,
            _active: active,
        })
    }

    /// The registers.
    #[inline]
    pub(crate) fn io(&self) -> &IoMem<'bound, WINDOW> {
        &self.hw.io
    }

    /// The hardware that the registers are of.
    pub(crate) fn hw(&self) -> &Hw<'bound> {
        &self.hw
    }

    fn generation(&self) -> &'static dyn Generation {
        self.hw.variant.generation
    }

    /// Waits until `done`, which should take microseconds.
    fn wait(&self, done: impl Fn(&IoMem<'bound, WINDOW>) -> bool) -> Result {
        poll::read_poll_timeout(
            || Ok(done(self.io())),
            |done| *done,
            Delta::from_micros(10),
            HW_TIMEOUT,
        )
        .map(|_| ())
    }

    /// Changes the operating mode, and waits until it has changed.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result {
        self.change_mode(mode, |ccc| ccc)
    }

    /// The same, with other bits that must change in the same access.
    fn change_mode(&self, mode: Mode, with: impl FnOnce(CCC) -> CCC) -> Result {
        self.io().update(CCC, |ccc| {
            with(match mode {
                Mode::Reset => ccc.with_const_opc::<0>(),
                Mode::Config => ccc.with_const_opc::<1>(),
                Mode::Operation => ccc.with_const_opc::<2>(),
            })
        });
        self.wait(|io| io.read(CSR).ops().get() == 1 << mode as u32)
            .inspect_err(|_| dev_err!(self.hw.dev, "mode change to {} is stuck\n", mode as u32))
    }

    /// Enters CONFIG mode as a device that is to be opened needs it.
    pub(crate) fn enter_config(&self) -> Result {
        self.generation().enter_config(self)
    }

    /// The address that a boot loader may have left, readable in CONFIG mode.
    pub(crate) fn boot_address(&self) -> MacAddress {
        let [a, b, c, d] = self.io().read(MAHR).into_raw().to_be_bytes();
        let [_, _, e, f] = self.io().read(MALR).into_raw().to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// Sets the address that unicast frames are received for.
    pub(crate) fn set_address(&self, address: MacAddress) {
        let [a, b, c, d, e, f] = address;
        self.io()
            .write(MAHR, u32::from_be_bytes([a, b, c, d]).into());
        self.io()
            .write(MALR, u32::from_be_bytes([0, 0, e, f]).into());
    }

    /// Sets up the DMAC for the first `queues` queues, in CONFIG mode. The rings hang on the table
    /// at `dbat`.
    pub(crate) fn init_dmac(&self, dbat: u32, queues: u16) {
        let io = self.io();

        self.hw.queues.store((1 << queues) - 1, Relaxed);
        io.update(CCC, |ccc| ccc.with_dtsr(false));
        io.write(DBAT, dbat.into());
        self.generation().init_dmac(self);
        self.mask_strays();
        self.unmask_losses();
        // The masks of the queues are shared, and the hardware was reset.
        self.hw.masks.lock().enabled = self.all_queues();
        io.write(RIC0, self.all_queues().into());
        io.write(TIC, self.all_queues().into());
    }

    /// The bits of all queues in use.
    fn all_queues(&self) -> u32 {
        self.hw.queues.load(Relaxed)
    }

    /// Masks all interrupts of the DMAC that are never asked for.
    pub(crate) fn mask_strays(&self) {
        let io = self.io();

        io.write_reg(DIC::zeroed());
        io.write_reg(EIC::zeroed());
        io.write_reg(RIC1::zeroed());
        io.write_reg(RIC3::zeroed());
        self.generation().mask_strays(self);
    }

    /// The queues in use.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        QueueId::of_bits(self.all_queues())
    }

    /// Sets up the E-MAC, in OPERATION mode, with the transmitter and receiver still off.
    pub(crate) fn init_emac(&self, address: MacAddress, tx_checksum: bool) -> Result {
        const CRC_LEN: u32 = 4;
        let io = self.io();

        self.generation().init_emac_first(self);
        io.write(RFLR, (self.hw.variant.max_rx_frame + CRC_LEN).into());
        self.set_address(address);
        // Causes from before.
        io.write_reg(
            ECSR::zeroed()
                .with_icd(true)
                .with_mpd(true)
                .with_lchng(true)
                .with_pfri(true),
        );
        self.generation().init_emac_last(self, tx_checksum)?;
        io.write_reg(
            ECSIPR::zeroed()
                .with_icdip(true)
                .with_lchngip(self.hw.wiring.link_pin.is_some()),
        );
        Ok(())
    }

    /// Switches the computation of checksums on or off, with traffic going on. May sleep.
    pub(crate) fn set_tx_checksum(&self, on: bool) -> Result {
        self.generation().set_tx_checksum(self, on)
    }

    /// Sets the mode of the E-MAC. With `on`, transmitter and receiver are on; with `magic`, magic
    /// packets are looked for, and frames are not received.
    pub(crate) fn set_emac_mode(
        &self,
        link: Option<Link>,
        on: bool,
        promiscuous: bool,
        magic: bool,
    ) {
        let full_duplex = link.is_none_or(|link| link.full_duplex);
        self.io().write_reg(
            self.generation()
                .emac_mode(full_duplex)
                .with_prm(promiscuous)
                .with_mpde(magic)
                .with_te(on)
                .with_re(on),
        );
    }

    /// Sets the speed, in Mbit/s, that the PHY negotiated.
    pub(crate) fn set_speed(&self, speed: u32) {
        self.io().write_reg(self.generation().speed(speed));
    }

    /// Adds what the hardware counted since the last time. The caller sees to it that this is done
    /// in one place at a time.
    pub(crate) fn collect(&self, counters: &HwCounters) {
        collect!(self.io(), PFRCR, counters.rx_pause);
        self.generation().collect(self, counters);
    }

    /// Unmasks the receive and transmit interrupts of a queue, and the one that tells of losses.
    #[inline]
    pub(crate) fn unmask_queue(&self, queue: QueueId) {
        if self.hw.losses_masked.load(Relaxed) {
            self.unmask_losses();
        }
        self.generation().unmask_queue(self, queue);
    }

    fn unmask_losses(&self) {
        self.hw.losses_masked.store(false, Relaxed);
        let ric2 = RIC2::zeroed().with_rffe(true).into_raw() | self.all_queues();
        self.io().write(RIC2, ric2.into());
    }

    /// Masks the receive and transmit interrupts of a queue.
    #[inline]
    pub(crate) fn mask_queue(&self, queue: QueueId) {
        self.generation().mask_queue(self, queue);
    }

    /// Changes the masks of a queue in registers that all queues share.
    fn update_masks(&self, f: impl FnOnce(u32) -> u32) {
        let mut masks = self.hw.masks.lock();
        masks.enabled = f(masks.enabled);
        self.io().write(RIC0, masks.enabled.into());
        self.io().write(TIC, masks.enabled.into());
    }

    /// Forgets the received and transmitted frames of a queue that were signalled so far.
    #[inline]
    pub(crate) fn clear_queue(&self, queue: QueueId) {
        let io = self.io();

        // Ones leave the other causes alone.
        io.write(RIS0, (RIS0_BITS & !queue.bit()).into());
        io.write(TIS, (TIS_BITS & !queue.bit()).into());
    }

    /// Asks the DMAC to look at a transmit ring. What other queues asked for stays in force.
    #[inline]
    pub(crate) fn ring_doorbell(&self, queue: QueueId) {
        let tccr = if self.hw.variant.queues > 1 {
            TCCR::zeroed().with_tfen(true)
        } else {
            TCCR::zeroed()
        };
        self.io()
            .write(TCCR, (tccr.into_raw() | queue.bit()).into());
    }

    /// Masks all interrupts.
    pub(crate) fn mask_all(&self) {
        self.update_masks(|_| 0);
        self.io().write_reg(RIC2::zeroed());
        self.io().write_reg(ECSIPR::zeroed());
    }

    /// Unmasks the interrupt that tells of a magic packet, and no other of the E-MAC.
    pub(crate) fn unmask_magic(&self) {
        self.io().write_reg(ECSIPR::zeroed().with_mpdip(true));
    }

    /// Copies the registers whose reading has no effect to `words`, each to the place of its
    /// offset; the others are left alone.
    pub(crate) fn dump(&self, words: &mut [u32]) {
        let readable = [READABLE, self.generation().readable()];
        for &offset in readable.into_iter().flatten() {
            let value = match &self.hw.toe {
                Some(toe) if offset >= WINDOW => toe.try_read32(offset),
                _ => self.io().try_read32(offset),
            };
            if let (Some(word), Ok(value)) = (words.get_mut(offset / size_of::<u32>()), value) {
                *word = value;
            }
        }
    }

    /// The queues that have received or transmitted frames, and are not masked.
    ///
    /// Where there is one queue, this is not called without reason, and nothing is read.
    #[inline]
    pub(crate) fn pending_queues(&self) -> impl Iterator<Item = QueueId> {
        let bits = if self.hw.variant.queues == 1 {
            QueueId::BestEffort.bit()
        } else {
            let io = self.io();
            let pending = io.read(RIS0).into_raw() | io.read(TIS).into_raw();
            pending & self.hw.masks.lock().enabled
        };
        QueueId::of_bits(bits)
    }

    /// Whether a queue is in use.
    fn uses(&self, queue: QueueId) -> bool {
        self.all_queues() & queue.bit() != 0
    }

    /// Reads and forgets what frames were lost.
    ///
    /// Every frame that is lost raises the interrupt anew. It would take the time that is missing
    /// to receive frames, so it is masked until a queue has been polled to its end. Should the
    /// queue that is unmasked meanwhile not see that, the next one will.
    pub(crate) fn take_losses(&self) -> Losses<impl Iterator<Item = QueueId>> {
        let io = self.io();
        let ris2 = io.read(RIS2);

        io.write_reg(RIC2::zeroed());
        // No other error is asked for. One that is enabled all the same would be raised for ever.
        io.write_reg(EIC::zeroed());
        self.hw.losses_masked.store(true, Relaxed);
        // Zeroes clear: everything that is enabled is handled by the caller.
        io.write(RIS2, (0x0003_ffff & !self.all_queues()).into());
        io.write_reg(EIS::zeroed().with_const_errors::<0x7ff>());
        Losses {
            queues: QueueId::of_bits(ris2.qff().get() & self.all_queues()),
            fifo: ris2.rfff(),
        }
    }

    /// Whether the link pin says that there is a link; true where it is not wired.
    pub(crate) fn link_pin(&self) -> bool {
        let level = || self.io().read(PSR).lmon();
        match self.hw.wiring.link_pin {
            None => true,
            Some(LinkPin::ActiveHigh) => level(),
            Some(LinkPin::ActiveLow) => !level(),
        }
    }

    /// Stops the DMAC in an orderly way: what is under way is finished first.
    ///
    /// On failure the DMAC may still access memory until [`Regs::halt`].
    pub(crate) fn stop_dma(&self) -> Result {
        self.wait(|io| io.read(TCCR).tsrq().get() == 0)?;
        self.wait(|io| io.read(CSR).tpo().get() == 0)?;
        self.io()
            .update(ECMR, |ecmr| ecmr.with_te(false).with_re(false));
        self.wait(|io| !io.read(CSR).rpo())?;
        self.io().update(CCC, |ccc| ccc.with_dtsr(true));
        self.wait(|io| io.read(CSR).dts())?;
        self.set_mode(Mode::Config)
    }

    /// Stops the DMAC in any case. The end of frames is not waited for, only that of what it does
    /// on the bus at this moment.
    pub(crate) fn halt(&self) {
        self.io().update(CCC, |ccc| ccc.with_dtsr(true));
        // RESET mode ends everything.
        let _ = self.wait(|io| io.read(CSR).dts());
        self.reset();
    }

    /// Enters RESET mode, by the reset line if the mode does not change: after this, the device
    /// does not touch memory any more.
    pub(crate) fn reset(&self) {
        if self.set_mode(Mode::Reset).is_err() {
            let line = self.hw.reset();
            let result = line.assert().and_then(|()| line.deassert());
            if result.is_err() {
                dev_err!(self.hw.dev, "cannot be reset\n");
            }
        }
    }
}
