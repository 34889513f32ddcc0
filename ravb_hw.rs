// SPDX-License-Identifier: GPL-2.0

//! The hardware: registers, operating modes, and what differs between the SoC families.
//!
//! Abbreviations of the hardware manual:
//!
//! - AVB-DMAC: the DMA controller, registers 0x000 to 0x4ff; E-MAC: the MAC, 0x500 to 0x7ff.
//! - TOE: TCP/IP offload engine, the checksum unit that only GbEth has, from 0x800.
//! - DBAT: descriptor base address table, one entry for each queue.
//! - BE: best effort, the queue that every variant has.
//!
//! All registers are 32 bits wide. Status registers of the DMAC are cleared by writing 0 to a bit;
//! writing 1 leaves it alone, but reserved bits must be written 0.

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
        Io, //
    },
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    time::Delta, //
};

use crate::{
    net::{
        netdev::{
            Features,
            MacAddress, //
        },
        phy,
        pm,
        reset, //
    },
    ravb_desc, //
};

register! {
    /// AVB-DMAC mode.
    pub(crate) CCC(u32) @ 0x000 {
        /// Requested operating mode; CSR shows the present one.
        1:0 opc;
        /// Request to suspend data transfer.
        8:8 dtsr => bool;
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

    /// Receive configuration.
    pub(crate) RCR(u32) @ 0x090 {
        /// Fill level of the receive FIFO at which a warning is raised; the field is one bit wider
        /// on GbEth, where the lower half of the register is reserved.
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
        23:0 tbd;
    }

    /// Transmit control.
    pub(crate) TCCR(u32) @ 0x304 {
        /// Transmit start request, one bit for each queue. Writing 0 to a bit does nothing, so that
        /// a request needs no read of the register.
        3:0 tsrq;
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
        /// PAUSE frames from the wire are obeyed.
        17:17 rxf => bool;
        /// PAUSE frames with a time of 0 are sent and obeyed.
        19:19 zpf => bool;
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

    /// Speed. On GbEth: 0 is 10, 1 is 100, 2 is 1000 Mbit/s.
    pub(crate) GECMR(u32) @ 0x5b0 {
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

    /// Frames that were not transmitted in time; any write clears it.
    pub(crate) TROCR(u32) @ 0x700 {
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

/// The registers that every variant of this driver has.
const WINDOW: usize = 0x80c;

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

/// What differs between SoC families in numbers; behaviour is in the `match` of [`Family`].
pub(crate) struct Info {
    /// The family, if the driver serves it.
    pub(crate) family: Option<Family>,
}

/// SoC families with hardware of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// RZ/G2L, RZ/G2UL, RZ/G3S, RZ/V2L, RZ/Five.
    GbEth,
}

/// GbEth.
pub(crate) const GBETH: Info = Info {
    family: Some(Family::GbEth),
};

/// EtherAVB, which is matched but not served yet.
pub(crate) const ETHERAVB: Info = Info { family: None };

impl Family {
    /// The longest frame that may be handed to the hardware, without CRC, in bytes.
    ///
    /// Longer ones block both directions for good.
    pub(crate) const fn max_tx_frame(self) -> usize {
        match self {
            Self::GbEth => 1518,
        }
    }

    /// The longest frame that can be received, without CRC, in bytes.
    pub(crate) const fn max_rx_frame(self) -> u32 {
        match self {
            Self::GbEth => 8192,
        }
    }

    /// What the hardware computes.
    pub(crate) const fn features(self) -> Features {
        match self {
            Self::GbEth => Features::RX_CHECKSUM.and(Features::TX_CHECKSUM),
        }
    }

    /// What its PHY must not offer.
    pub(crate) const fn phy_restriction(self) -> phy::Restriction {
        match self {
            Self::GbEth => phy::Restriction::None,
        }
    }
}

/// A device that is bound.
#[pin_data]
pub(crate) struct Hw<'bound> {
    dev: &'bound Device<Bound>,
    io: IoMem<'bound, WINDOW>,
    runtime: pm::Runtime<'bound>,
    refclk: OptionalClk,
    reset: &'bound reset::Control,
    pub(crate) family: Family,
    pub(crate) interface: phy::Interface,
    /// Whether the interface is up. Who holds the lock may change the operating mode, and nobody
    /// else does.
    #[pin]
    pub(crate) up: Mutex<bool>,
}

impl<'bound> Hw<'bound> {
    /// Collects what makes up the hardware.
    pub(crate) fn new(
        dev: &'bound Device<Bound>,
        request: kernel::io::mem::IoRequest<'bound>,
        runtime: pm::Runtime<'bound>,
        refclk: OptionalClk,
        reset: &'bound reset::Control,
        family: Family,
        interface: phy::Interface,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                dev,
                io: request.iomap_sized::<WINDOW>()?,
                runtime,
                refclk,
                reset,
                family,
                interface,
                up <- new_mutex!(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The device.
    pub(crate) fn dev(&self) -> &'bound Device<Bound> {
        self.dev
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

    /// Waits until `done`, which should take microseconds; it is a failure after 10 ms.
    fn wait(&self, done: impl Fn(&IoMem<'bound, WINDOW>) -> bool) -> Result {
        poll::read_poll_timeout(
            || Ok(done(self.io())),
            |done| *done,
            Delta::from_micros(10),
            Delta::from_millis(10),
        )
        .map(|_| ())
    }

    /// Changes the operating mode, and waits until it has changed.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result {
        self.io().update(CCC, |ccc| match mode {
            Mode::Reset => ccc.with_const_opc::<0>(),
            Mode::Config => ccc.with_const_opc::<1>(),
            Mode::Operation => ccc.with_const_opc::<2>(),
        });
        self.wait(|io| io.read(CSR).ops().get() == 1 << mode as u32)
            .inspect_err(|_| dev_err!(self.hw.dev, "mode change to {} is stuck\n", mode as u32))
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

    /// Sets up the DMAC, in CONFIG mode. The rings hang on the table at `dbat`.
    pub(crate) fn init_dmac(&self, dbat: u32) {
        let io = self.io();

        io.update(CCC, |ccc| ccc.with_dtsr(false));
        io.write(DBAT, dbat.into());
        match self.hw.family {
            Family::GbEth => {
                io.write_reg(RCR::zeroed().with_const_rfcl::<0x6000>());
                io.write(RTC, (0x7ffc_0000 | self.hw.family.max_rx_frame()).into());
                io.write_reg(TGC::zeroed().with_const_tbd::<0x22_2200>());
                io.write_reg(TCCR::zeroed());
            }
        }
        io.write_reg(RIC1::zeroed());
        io.write_reg(
            RIC2::zeroed()
                .with_const_qfe::<{ 1 << ravb_desc::BE }>()
                .with_rffe(true),
        );
        self.unmask_queue();
    }

    /// Sets up the E-MAC, in OPERATION mode, with the transmitter and receiver still off.
    pub(crate) fn init_emac(&self, address: MacAddress, tx_checksum: bool) -> Result {
        const CRC_LEN: u32 = 4;
        let io = self.io();
        let mii = self.hw.interface == phy::Interface::MII;

        match self.hw.family {
            Family::GbEth => {
                // The first access to the E-MAC after a reset: otherwise it misbehaves.
                let cxr35 = CXR35::zeroed().with_const_halfcyc_clksw::<1000>();
                io.write_reg(if mii {
                    cxr35.with_const_sel_xmii::<2>()
                } else {
                    cxr35.with_const_sel_xmii::<0>()
                });
                io.update(CXR31, |cxr31| {
                    cxr31.with_sel_link0(!mii).with_sel_link1(false)
                });
            }
        }
        io.write(RFLR, (self.hw.family.max_rx_frame() + CRC_LEN).into());
        self.set_address(address);
        // Causes from before.
        io.write_reg(
            ECSR::zeroed()
                .with_icd(true)
                .with_lchng(true)
                .with_pfri(true),
        );
        match self.hw.family {
            Family::GbEth => self.init_toe(tx_checksum)?,
        }
        io.write_reg(ECSIPR::zeroed().with_icdip(true));
        Ok(())
    }

    /// Sets up the checksum engine.
    ///
    /// Received frames are always verified: whether the result is used is decided when a frame is
    /// passed up, so that nothing depends on which setting a frame was received under.
    fn init_toe(&self, tx_checksum: bool) -> Result {
        let io = self.io();
        let on = CSR0::zeroed().with_tpe(true).with_rpe(true);

        io.write_reg(CSR0::zeroed());
        let idle = self.wait(|io| {
            let csr0 = io.read(CSR0);
            !csr0.tpe() && !csr0.rpe()
        });
        if idle.is_ok() {
            io.write_reg(Self::tx_checksums(tx_checksum));
            io.write_reg(
                CSR2::zeroed()
                    .with_tcp4(true)
                    .with_udp4(true)
                    .with_icmp4(true)
                    .with_tcp6(true)
                    .with_udp6(true)
                    .with_icmp6(true),
            );
        }
        // In any case: frames stop for good while a direction is off.
        io.write_reg(on);
        idle.inspect_err(|_| dev_err!(self.hw.dev, "checksum engine does not stop\n"))
    }

    fn tx_checksums(on: bool) -> CSR1 {
        CSR1::zeroed()
            .with_tcp4(on)
            .with_udp4(on)
            .with_tcp6(on)
            .with_udp6(on)
    }

    /// Switches the computation of checksums on or off, with traffic going on. May sleep.
    pub(crate) fn set_tx_checksum(&self, on: bool) -> Result {
        match self.hw.family {
            Family::GbEth => {
                let io = self.io();
                io.write_reg(CSR0::zeroed().with_rpe(true));
                let idle = self.wait(|io| !io.read(CSR0).tpe());
                if idle.is_ok() {
                    io.write_reg(Self::tx_checksums(on));
                }
                io.write_reg(CSR0::zeroed().with_tpe(true).with_rpe(true));
                idle
            }
        }
    }

    /// Sets the speed, in Mbit/s, that the PHY negotiated.
    pub(crate) fn set_speed(&self, speed: u32) {
        match self.hw.family {
            Family::GbEth => {
                let gecmr = GECMR::zeroed();
                self.io().write_reg(match speed {
                    10 => gecmr.with_const_speed::<0>(),
                    100 => gecmr.with_const_speed::<1>(),
                    _ => gecmr.with_const_speed::<2>(),
                });
            }
        }
    }

    /// Unmasks the receive and transmit interrupts of the queue.
    #[inline]
    pub(crate) fn unmask_queue(&self) {
        let io = self.io();
        io.write_reg(RIC0::zeroed().with_const_fre::<{ 1 << ravb_desc::BE }>());
        io.write_reg(TIC::zeroed().with_const_fte::<{ 1 << ravb_desc::BE }>());
    }

    /// Masks the receive and transmit interrupts of the queue.
    ///
    /// The masks belong to the queue alone, so that no lock is needed: should an unmasking poll on
    /// another CPU be overtaken, the poll that was scheduled with the masking unmasks again.
    #[inline]
    pub(crate) fn mask_queue(&self) {
        let io = self.io();
        io.write_reg(RIC0::zeroed());
        io.write_reg(TIC::zeroed());
    }

    /// Forgets the received and transmitted frames of the queue that were signalled so far.
    #[inline]
    pub(crate) fn clear_queue(&self) {
        let io = self.io();
        // Ones keep the bits of the other queues, where they exist; reserved bits are written 0.
        io.write_reg(RIS0::zeroed().with_const_frf::<{ 0x3_ffff & !(1 << ravb_desc::BE) }>());
        io.write_reg(
            TIS::zeroed()
                .with_const_ftf::<{ 0xf & !(1 << ravb_desc::BE) }>()
                .with_const_fifo::<0xf>()
                .with_const_tdpf::<0xf>(),
        );
    }

    /// Asks the DMAC to look at the transmit ring.
    #[inline]
    pub(crate) fn ring_doorbell(&self) {
        self.io()
            .write_reg(TCCR::zeroed().with_const_tsrq::<{ 1 << ravb_desc::BE }>());
    }

    /// Masks all interrupts.
    pub(crate) fn mask_all(&self) {
        self.mask_queue();
        self.io().write_reg(RIC2::zeroed());
        self.io().write_reg(ECSIPR::zeroed());
    }

    /// Stops the DMAC in an orderly way: what is under way is finished first.
    ///
    /// On failure the DMAC may still access memory; only [`Mode::Reset`] stops it then.
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
}
