// SPDX-License-Identifier: GPL-2.0

//! Renesas Ethernet AVB and Gigabit Ethernet driver.
//!
//! The controllers of the RZ/G2L family (GbEth) and of R-Car and RZ/V2M (EtherAVB) share a DMA
//! controller, which moves frames between memory and a MAC along rings of descriptors. This driver
//! serves GbEth; EtherAVB is recognised but not served yet.
//!
//! Where to begin reading: reception is in [`ravb_rx`], transmission in [`ravb_tx`], the registers
//! are in [`ravb_hw`]. This file says how a device is set up and taken down. `Documentation/` has
//! the whole picture.

mod bindings;
mod net;
mod ravb_desc;
mod ravb_ethtool;
mod ravb_frame;
mod ravb_hw;
mod ravb_irq;
mod ravb_link;
mod ravb_ring;
mod ravb_rx;
mod ravb_stats;
mod ravb_tx;

use kernel::{
    clk::{
        Clk,
        OptionalClk, //
    },
    device::{
        Bound,
        Core,
        Device, //
    },
    dma::DmaMask,
    of,
    platform,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
    time::Delta,
    types::ScopeGuard, //
};

use net::{
    ethtool::RingSizes,
    irq,
    mdio,
    napi::Napi,
    netdev::{
        self,
        Features,
        Locked,
        NetDevice,
        TxQueueRef,
        Xmit, //
    },
    phy::{
        self,
        Link,
        LinkHandler, //
    },
    platform::SystemOps,
    pm,
    reset,
    skbuff::SkBuff, //
};
use ravb_hw::{
    Hw,
    Info,
    Mode,
    Regs, //
};
use ravb_irq::{
    Interrupt,
    Queue, //
};
use ravb_link::{
    Emac,
    MdioPins, //
};
use ravb_ring::BaseTable;
use ravb_rx::RxQueue;
use ravb_stats::DeviceStats;
use ravb_tx::TxQueue;

/// How long an unused device stays powered, in case it is used again.
const AUTOSUSPEND_DELAY: Delta = Delta::from_millis(100);

/// Ring sizes to begin with.
const DEFAULT_RING_SIZES: RingSizes = RingSizes { rx: 1024, tx: 64 };

/// A device, as all parts of the driver share it.
#[pin_data]
struct Ravb<'bound> {
    hw: Arc<Hw<'bound>>,
    irq: irq::Number<'bound>,
    stats: Arc<DeviceStats>,
    #[pin]
    emac: SpinLockIrq<Emac<'bound>>,
}

/// What RTNL protects.
struct State<'bound> {
    ring_sizes: RingSizes,
    /// Present while the interface is up.
    open: Option<Open<'bound>>,
}

/// An interface that is up.
struct Open<'bound> {
    phy: phy::Connection,
    path: DataPath<'bound>,
    regs: Arc<Regs<'bound>>,
}

/// What moves frames: everything that a change of the ring sizes makes anew.
struct DataPath<'bound> {
    line: irq::Line<'bound, Interrupt<'bound>>,
    napi: Arc<Napi<Queue<'bound>>>,
    /// The hardware looks at it as long as it is in OPERATION mode.
    table: BaseTable,
}

impl<'bound> DataPath<'bound> {
    /// Sets up rings and interrupts and lets frames flow.
    fn start(dev: &mut Locked<'_, Ravb<'bound>>, regs: &Arc<Regs<'bound>>) -> Result<Self> {
        let napi = Napi::add(dev, ravb_desc::BE as u16)?;
        let started = Self::start_polled(dev, regs, &napi);
        if started.is_err() {
            napi.delete(dev);
        }
        started
    }

    fn start_polled(
        dev: &mut Locked<'_, Ravb<'bound>>,
        regs: &Arc<Regs<'bound>>,
        napi: &Arc<Napi<Queue<'bound>>>,
    ) -> Result<Self> {
        let ravb = dev.device();
        let hw = &ravb.hw;
        let sizes = dev.state().ring_sizes;

        let rx = RxQueue::new(dev, napi, sizes.rx)?;
        let (tx, reclaim) = ravb_tx::queue(hw, regs, &ravb.stats, sizes.tx)?;
        let table = BaseTable::new(hw.dev())?;
        table.link(ravb_desc::dbat_rx(ravb_desc::BE), rx.ring())?;
        table.link(ravb_desc::dbat_tx(ravb_desc::BE), reclaim.ring())?;

        let line = ravb.irq.request_shared(Interrupt {
            regs: regs.clone(),
            napi: napi.clone(),
            stats: ravb.stats.clone(),
        })?;
        napi.enable(
            dev,
            ravb.irq.get(),
            Queue {
                regs: regs.clone(),
                tx: reclaim,
                rx,
            },
        );
        let this = Self {
            line,
            napi: napi.clone(),
            table,
        };
        let started = this.start_hardware(dev, regs);
        if let Err(error) = started {
            // The queue goes before the caller removes the NAPI context.
            drop(this.napi.disable(dev));
            return Err(error);
        }

        dev.install_tx_queue(ravb_desc::BE as u16, tx);
        dev.wake_tx();
        Ok(this)
    }

    fn start_hardware(
        &self,
        dev: &mut Locked<'_, Ravb<'bound>>,
        regs: &Arc<Regs<'bound>>,
    ) -> Result {
        let ravb = dev.device();
        let mut up = ravb.hw.up.lock();
        // On failure, whatever was set up stops here.
        let reset = ScopeGuard::new(|| {
            let _ = regs.set_mode(Mode::Reset);
        });

        regs.set_mode(Mode::Reset)?;
        regs.set_mode(Mode::Config)?;
        regs.init_dmac(self.table.address()?);
        regs.set_mode(Mode::Operation)?;
        regs.init_emac(
            dev.address(),
            dev.features().contains(Features::TX_CHECKSUM),
        )?;
        reset.dismiss();
        *up = true;
        drop(up);

        ravb.emac.lock().start(regs.clone(), dev.is_promiscuous());
        Ok(())
    }

    /// Stops everything that [`DataPath::start`] started.
    fn stop(self, dev: &mut Locked<'_, Ravb<'bound>>, regs: &Regs<'bound>) {
        let ravb = dev.device();

        regs.mask_all();
        // No handler runs after this, so that nothing schedules a poll.
        drop(self.line);
        // The queue is kept until the hardware does not look at it any more.
        let queue = self.napi.disable(dev);
        dev.remove_tx_queues();

        let (has_link, emac) = {
            let mut emac = ravb.emac.lock();
            emac.collect(&ravb.stats.hw);
            (emac.has_link(), emac.stop())
        };
        drop(emac);

        let mut up = ravb.hw.up.lock();
        // Without a link, frames that are under way never come to an end.
        if has_link && regs.stop_dma().is_err() {
            dev_warn!(
                ravb.hw.dev(),
                "DMA does not come to an end, resetting the device\n"
            );
        }
        // This stops it in any case.
        let _ = regs.set_mode(Mode::Reset);
        *up = false;
        drop(up);

        drop(queue);
        drop(self.table);
        self.napi.delete(dev);
    }
}

impl<'bound> Open<'bound> {
    fn start(dev: &mut Locked<'_, Ravb<'bound>>) -> Result<Self> {
        let hw = &dev.device().hw;
        let regs = Arc::new(Regs::new(hw)?, GFP_KERNEL)?;
        let path = DataPath::start(dev, &regs)?;

        match phy::Connection::connect(dev, hw.dev(), hw.interface, hw.family.phy_restriction()) {
            Ok(phy) => {
                phy.start();
                Ok(Self { phy, path, regs })
            }
            Err(error) => {
                dev_err!(hw.dev(), "no PHY: {:?}\n", error);
                path.stop(dev, &regs);
                Err(error)
            }
        }
    }

    fn stop(self, dev: &mut Locked<'_, Ravb<'bound>>) {
        self.path.stop(dev, &self.regs);
        drop(self.phy);
        // The next PHY may say something else.
        dev.emac.lock().set_link(None);
    }

    /// Makes rings of the sizes that the state says.
    fn restart(self, dev: &mut Locked<'_, Ravb<'bound>>) -> Result<Self, (Error, Closing<'bound>)> {
        let Self { phy, path, regs } = self;
        path.stop(dev, &regs);
        match DataPath::start(dev, &regs) {
            Ok(path) => Ok(Self { phy, path, regs }),
            Err(error) => Err((error, Closing { phy, regs })),
        }
    }
}

/// An interface whose data path could not be restarted.
struct Closing<'bound> {
    phy: phy::Connection,
    regs: Arc<Regs<'bound>>,
}

impl<'bound> Closing<'bound> {
    /// Tries again, with the sizes that the state says now.
    fn reopen(self, dev: &mut Locked<'_, Ravb<'bound>>) -> Result<Open<'bound>> {
        let path = DataPath::start(dev, &self.regs)?;
        Ok(Open {
            phy: self.phy,
            path,
            regs: self.regs,
        })
    }
}

/// Changes the sizes of the rings. Should that fail, the old ones are restored.
fn resize_rings<'bound>(dev: &mut Locked<'_, Ravb<'bound>>, sizes: RingSizes) -> Result {
    let old = core::mem::replace(&mut dev.state().ring_sizes, sizes);
    let Some(open) = dev.state().open.take() else {
        return Ok(());
    };
    match open.restart(dev) {
        Ok(open) => {
            dev.state().open = Some(open);
            Ok(())
        }
        Err((error, closing)) => {
            dev.state().ring_sizes = old;
            dev.state().open = closing.reopen(dev).ok();
            Err(error)
        }
    }
}

impl<'bound> netdev::Operations for Ravb<'bound> {
    type State = State<'bound>;
    type TxQueue = TxQueue<'bound>;

    fn open(dev: &mut Locked<'_, Self>) -> Result {
        let open = Open::start(dev)?;
        dev.state().open = Some(open);
        Ok(())
    }

    fn stop(dev: &mut Locked<'_, Self>) {
        if let Some(open) = dev.state().open.take() {
            open.stop(dev);
        }
    }

    fn start_xmit(
        _dev: &NetDevice<Self>,
        queue: &mut Self::TxQueue,
        txq: TxQueueRef<'_>,
        skb: SkBuff,
    ) -> Xmit {
        queue.transmit(txq, skb)
    }

    fn set_rx_mode(dev: &mut Locked<'_, Self>) -> Result {
        dev.emac.lock().set_promiscuous(dev.is_promiscuous());
        Ok(())
    }

    fn address_changed(dev: &mut Locked<'_, Self>) {
        let address = dev.address();
        if let Some(open) = &dev.state().open {
            open.regs.set_address(address);
        }
    }

    fn set_features(dev: &mut Locked<'_, Self>, wanted: Features) -> Result {
        // The others are looked at when a frame is received.
        let tx = wanted.contains(Features::TX_CHECKSUM);
        if tx == dev.features().contains(Features::TX_CHECKSUM) {
            return Ok(());
        }
        match &dev.state().open {
            Some(open) => open.regs.set_tx_checksum(tx),
            None => Ok(()),
        }
    }

    fn stats(dev: &NetDevice<Self>, stats: &mut netdev::Stats) {
        dev.emac.lock().collect(&dev.stats.hw);
        dev.stats.fill(stats);
    }
}

impl LinkHandler for Ravb<'_> {
    fn adjust_link(dev: &NetDevice<Self>, link: Option<Link>) -> bool {
        dev.emac.lock().set_link(link)
    }
}

/// The platform driver.
struct RavbDriver;

kernel::of_device_table!(
    OF_TABLE,
    <RavbDriver as platform::Driver>::IdInfo,
    [
        (
            of::DeviceId::new(c"renesas,etheravb-r8a7790"),
            ravb_hw::ETHERAVB
        ),
        (
            of::DeviceId::new(c"renesas,etheravb-r8a7794"),
            ravb_hw::ETHERAVB
        ),
        (
            of::DeviceId::new(c"renesas,etheravb-rcar-gen2"),
            ravb_hw::ETHERAVB
        ),
        (
            of::DeviceId::new(c"renesas,etheravb-r8a7795"),
            ravb_hw::ETHERAVB
        ),
        (
            of::DeviceId::new(c"renesas,etheravb-rcar-gen3"),
            ravb_hw::ETHERAVB
        ),
        (
            of::DeviceId::new(c"renesas,etheravb-rcar-gen4"),
            ravb_hw::ETHERAVB
        ),
        (
            of::DeviceId::new(c"renesas,etheravb-rzv2m"),
            ravb_hw::ETHERAVB
        ),
        (of::DeviceId::new(c"renesas,rzg2l-gbeth"), ravb_hw::GBETH),
    ]
);

/// Whether the device tree gives `dev` this property.
fn has_property(dev: &Device<Bound>, name: &CStr) -> bool {
    dev.fwnode().is_some_and(|node| node.property_present(name))
}

/// A device that is bound: everything of it hangs on the network device.
struct BoundDevice<'bound> {
    netdev: &'bound NetDevice<Ravb<'bound>>,
}

impl RavbDriver {
    fn setup<'bound>(
        pdev: &'bound platform::Device<Core<'_>>,
        info: Option<&Info>,
    ) -> Result<BoundDevice<'bound>> {
        let pdev: &'bound platform::Device<Bound> = pdev;
        let dev: &'bound Device<Bound> = pdev.as_ref();
        let family = info
            .and_then(|info| info.family)
            .ok_or(ENODEV)
            .map_err(|e| {
                dev_err_probe!(dev, e, "EtherAVB is not supported yet, use the driver ravb")
            })?;

        let reset =
            reset::Control::deasserted(dev).map_err(|e| dev_err_probe!(dev, e, "missing reset"))?;
        let irq = irq::Number::by_index(pdev, 0)
            .map_err(|e| dev_err_probe!(dev, e, "missing interrupt"))?;
        // The power domain switches the clocks; here it is only seen that there are both.
        let _ = Clk::get(dev, None).map_err(|e| dev_err_probe!(dev, e, "missing clock"))?;
        if !has_property(dev, c"power-domains") {
            return Err(dev_err_probe!(dev, EINVAL, "missing power domain"));
        }
        let refclk = OptionalClk::get(dev, Some(c"refclk"))
            .map_err(|e| dev_err_probe!(dev, e, "bad clock refclk"))?;
        let interface = phy::Interface::of_device(dev)
            .map_err(|_| dev_err_probe!(dev, EINVAL, "missing or unknown phy-mode"))?;
        let request = pdev
            .io_request_by_index(0)
            .ok_or(EINVAL)
            .map_err(|e| dev_err_probe!(dev, e, "missing register window"))?;
        let address = match netdev::address_of_device(dev) {
            Err(error) if error == EPROBE_DEFER => {
                return Err(dev_err_probe!(dev, error, "waiting for the MAC address"));
            }
            result => result.ok(),
        };

        let runtime = pm::Runtime::enable(dev, AUTOSUSPEND_DELAY)?;
        let hw = Hw::new(dev, request, runtime, refclk, reset, family, interface)
            .map_err(|e| dev_err_probe!(dev, e, "cannot map the registers"))?;
        let address = match address {
            Some(address) => Some(address),
            None => Self::boot_address(&hw)?,
        };
        if address.is_none() {
            dev_warn!(dev, "no valid MAC address, using a random one\n");
        }

        phy::register_fixed_link(dev).map_err(|e| dev_err_probe!(dev, e, "bad fixed-link"))?;
        mdio::register(
            dev,
            kernel::module::this_module::<LocalModule>(),
            MdioPins(hw.clone()),
        )
        .map_err(|e| dev_err_probe!(dev, e, "cannot register the MDIO bus"))?;

        let config = netdev::Config {
            queues: 1,
            features: family.features(),
            max_mtu: netdev::mtu_of_frame(family.max_tx_frame()),
            address,
            // Small cores are swamped by interrupts and softirqs otherwise.
            coalesce: true,
            threaded: netdev::present_cpus() == 1,
        };
        let netdev = netdev::register(
            dev,
            config,
            try_pin_init!(Ravb {
                hw,
                irq,
                stats: Arc::new(DeviceStats::new(), GFP_KERNEL)?,
                emac <- new_spinlock_irq!(Emac::new()),
            }? Error),
            State {
                ring_sizes: DEFAULT_RING_SIZES,
                open: None,
            },
        )
        .map_err(|e| dev_err_probe!(dev, e, "cannot register the network device"))?;

        Ok(BoundDevice { netdev })
    }

    /// The MAC address that the boot loader left in the registers.
    fn boot_address(hw: &Arc<Hw<'_>>) -> Result<Option<netdev::MacAddress>> {
        let _up = hw.up.lock();
        let regs = Regs::new(hw)?;
        regs.set_mode(Mode::Config)?;
        let address = regs.boot_address();
        regs.set_mode(Mode::Reset)?;
        Ok(netdev::is_valid_address(&address).then_some(address))
    }
}

impl platform::Driver for RavbDriver {
    type IdInfo = Info;
    type Data<'bound> = BoundDevice<'bound>;
    const OF_ID_TABLE: Option<of::IdTable<Self::IdInfo>> = Some(&OF_TABLE);

    fn probe<'bound>(
        pdev: &'bound platform::Device<Core<'_>>,
        info: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        Self::setup(pdev, info)
    }

    fn unbind<'bound>(_dev: &'bound platform::Device<Core<'_>>, data: Pin<&Self::Data<'bound>>) {
        // While everything is still there; the rest goes with the device core.
        data.netdev.lock().close();
    }
}

/// Makes the device work after a suspend, or after an attempt of one.
fn wake_up<'bound>(
    dev: &'bound platform::Device<Bound>,
    netdev: &mut Locked<'_, Ravb<'bound>>,
) -> Result {
    netdev.hw.reset().deassert()?;
    pm::force_resume(dev.as_ref())?;
    if netdev.is_running() {
        let open = Open::start(netdev)?;
        netdev.state().open = Some(open);
        netdev.attach();
    }
    Ok(())
}

impl SystemOps for RavbDriver {
    const DMA_MASK: DmaMask = DmaMask::new::<32>();

    fn suspend<'bound>(
        dev: &'bound platform::Device<Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result {
        let mut netdev = data.netdev.lock();
        if let Some(open) = netdev.state().open.take() {
            netdev.detach();
            open.stop(&mut netdev);
        }
        let result = pm::force_suspend(dev.as_ref()).and_then(|()| data.netdev.hw.reset().assert());
        if result.is_err() {
            // The system stays awake, and nobody will ask to resume.
            let _ = wake_up(dev, &mut netdev);
        }
        result
    }

    fn resume<'bound>(
        dev: &'bound platform::Device<Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result {
        wake_up(dev, &mut data.netdev.lock())
    }

    fn shutdown<'bound>(_dev: &'bound platform::Device<Bound>, data: Pin<&Self::Data<'bound>>) {
        let mut netdev = data.netdev.lock();
        netdev.detach();
        if let Some(open) = netdev.state().open.take() {
            open.stop(&mut netdev);
        }
    }
}

module_platform_driver! {
    type: RavbDriver,
    name: "ravb_rs",
    authors: ["The ravb_rs authors"],
    description: "Renesas Ethernet AVB and GbEth driver in Rust",
    license: "GPL",
}
