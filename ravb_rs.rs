// SPDX-License-Identifier: GPL-2.0

//! Renesas Ethernet AVB and Gigabit Ethernet driver.
//!
//! The controllers of the RZ/G2L family (GbEth) and of R-Car and RZ/V2M (EtherAVB) share a DMA
//! controller, which moves frames between memory and a MAC along rings of descriptors. This driver
//! serves both.
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
mod ravb_path;
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
        atomic::Atomic,
        new_spinlock_irq,
        Arc, //
    },
    time::Delta, //
};

use net::{
    ethtool::RingSizes,
    irq,
    mdio,
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
        Interface,
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
    LinkPin,
    Mode,
    QueueId,
    Regs,
    Variant,
    Wiring,
    GBETH,
    GEN2,
    GEN3,
    GEN4,
    RZV2M, //
};
use ravb_link::{
    Emac,
    EmacLock,
    MdioPins, //
};
use ravb_path::DataPath;
use ravb_stats::DeviceStats;
use ravb_tx::TxQueue;

/// How long an unused device stays powered, in case it is used again.
const AUTOSUSPEND_DELAY: Delta = Delta::from_millis(100);

/// Ring sizes to begin with.
const DEFAULT_RING_SIZES: RingSizes = RingSizes { rx: 1024, tx: 256 };

/// What frames are copied to begin with, in bytes: none, because copying took 3 % more instructions
/// for frames of 60 bytes. What cache maintenance costs on hardware, a count does not show.
const DEFAULT_RX_COPYBREAK: u32 = 0;

/// A device, as all parts of the driver share it.
struct Ravb<'bound> {
    hw: Arc<Hw<'bound>>,
    /// One for each of the lines of the variant.
    irqs: KVec<irq::Number<'bound>>,
    stats: Arc<DeviceStats>,
    emac: Arc<EmacLock<'bound>>,
    /// The longest frame that is copied when it is received, with its trailer, in bytes.
    rx_copybreak: Atomic<u32>,
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

impl<'bound> Open<'bound> {
    fn start(dev: &mut Locked<'_, Ravb<'bound>>) -> Result<Self> {
        let hw = &dev.device().hw;
        let regs = Arc::new(Regs::new(hw)?, GFP_KERNEL)?;
        let path = DataPath::start(dev, &regs)?;

        match phy::Connection::connect(
            dev,
            hw.dev(),
            hw.wiring.interface,
            hw.variant.phy_restriction,
        ) {
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
}

/// Makes the data path anew, with rings of these sizes; the PHY stays as it is. Should that fail,
/// the old sizes are restored.
fn restart<'bound>(dev: &mut Locked<'_, Ravb<'bound>>, sizes: RingSizes) -> Result {
    let old = core::mem::replace(&mut dev.state().ring_sizes, sizes);
    let Some(Open { phy, path, regs }) = dev.state().open.take() else {
        return Ok(());
    };
    path.stop(dev, &regs);

    let (path, result) = match DataPath::start(dev, &regs) {
        Ok(path) => (Ok(path), Ok(())),
        Err(error) => {
            dev.state().ring_sizes = old;
            (DataPath::start(dev, &regs), Err(error))
        }
    };
    match path {
        Ok(path) => dev.state().open = Some(Open { phy, path, regs }),
        Err(_) => dev_err!(dev.hw.dev(), "no memory for rings, the interface is dead\n"),
    }
    result
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

    fn select_queue(dev: &NetDevice<Self>, skb: &SkBuff) -> u16 {
        // Only the queue for network control has transmit timestamps.
        let queue = if dev.hw.variant.queues > 1 && skb.wants_hardware_timestamp() {
            QueueId::NetworkControl
        } else {
            QueueId::BestEffort
        };
        queue.index()
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

    fn timed_out(dev: &NetDevice<Self>, queue: u32) {
        dev_err!(
            dev.hw.dev(),
            "transmit queue {} is stuck, restarting\n",
            queue
        );
        dev.stats.tx_errors.add(1);
    }

    fn recover(dev: &mut Locked<'_, Self>) {
        let sizes = dev.state().ring_sizes;
        // A failure was reported.
        let _ = restart(dev, sizes);
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
        (of::DeviceId::new(c"renesas,etheravb-r8a7790"), GEN2),
        (of::DeviceId::new(c"renesas,etheravb-r8a7794"), GEN2),
        (of::DeviceId::new(c"renesas,etheravb-rcar-gen2"), GEN2),
        (of::DeviceId::new(c"renesas,etheravb-r8a7795"), GEN3),
        (of::DeviceId::new(c"renesas,etheravb-rcar-gen3"), GEN3),
        (of::DeviceId::new(c"renesas,etheravb-rcar-gen4"), GEN4),
        (of::DeviceId::new(c"renesas,etheravb-rzv2m"), RZV2M),
        (of::DeviceId::new(c"renesas,rzg2l-gbeth"), GBETH),
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
        variant: Option<&'bound Variant>,
    ) -> Result<BoundDevice<'bound>> {
        let pdev: &'bound platform::Device<Bound> = pdev;
        let dev: &'bound Device<Bound> = pdev.as_ref();
        let variant = variant.ok_or(EINVAL)?;

        let reset =
            reset::Control::deasserted(dev).map_err(|e| dev_err_probe!(dev, e, "missing reset"))?;
        let mut irqs = KVec::with_capacity(variant.lines.len(), GFP_KERNEL)?;
        for line in variant.lines {
            let irq = irq::Number::of_device(pdev, line.name)
                .map_err(|e| dev_err_probe!(dev, e, "missing interrupt{}", line.label))?;
            irqs.push(irq, GFP_KERNEL)?;
        }
        // The power domain switches the clocks; here it is only seen that they are there.
        let _ = Clk::get(dev, None).map_err(|e| dev_err_probe!(dev, e, "missing clock"))?;
        if let Some(name) = variant.gptp_clock {
            let _ = Clk::get(dev, Some(name))
                .map_err(|e| dev_err_probe!(dev, e, "missing clock gptp"))?;
        }
        if !has_property(dev, c"power-domains") {
            return Err(dev_err_probe!(dev, EINVAL, "missing power domain"));
        }
        let refclk = OptionalClk::get(dev, Some(c"refclk"))
            .map_err(|e| dev_err_probe!(dev, e, "bad clock refclk"))?;
        let wiring = Self::wiring(dev, variant)?;
        let address = match netdev::address_of_device(dev) {
            Err(error) if error == EPROBE_DEFER => {
                return Err(dev_err_probe!(dev, error, "waiting for the MAC address"));
            }
            result => result.ok(),
        };

        let runtime = pm::Runtime::enable(dev, AUTOSUSPEND_DELAY)?;
        let hw = Hw::new(pdev, runtime, refclk, reset, variant, wiring)
            .map_err(|e| dev_err_probe!(dev, e, "missing or bad register window"))?;
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
            queues: variant.queues,
            features: variant.features,
            max_mtu: netdev::mtu_of_frame(variant.max_tx_frame),
            address,
            coalesce: variant.coalesce,
            threaded: variant.coalesce && netdev::present_cpus() == 1,
        };
        let ravb = Ravb {
            hw,
            irqs,
            stats: Arc::new(DeviceStats::new(), GFP_KERNEL)?,
            emac: Arc::pin_init(new_spinlock_irq!(Emac::new()), GFP_KERNEL)?,
            rx_copybreak: Atomic::new(DEFAULT_RX_COPYBREAK),
        };
        let state = State {
            ring_sizes: DEFAULT_RING_SIZES,
            open: None,
        };
        let netdev = netdev::register(dev, config, ravb, state)
            .map_err(|e| dev_err_probe!(dev, e, "cannot register the network device"))?;

        Ok(BoundDevice { netdev })
    }

    /// Reads how the device is wired.
    fn wiring(dev: &Device<Bound>, variant: &Variant) -> Result<Wiring> {
        let interface = Interface::of_device(dev)
            .map_err(|_| dev_err_probe!(dev, EINVAL, "missing or unknown phy-mode"))?;
        let delay = |name| -> Option<u32> { dev.fwnode()?.property_read::<u32>(name).optional() };
        let link_pin = if has_property(dev, c"renesas,no-ether-link") {
            None
        } else if has_property(dev, c"renesas,ether-link-active-low") {
            Some(LinkPin::ActiveLow)
        } else {
            Some(LinkPin::ActiveHigh)
        };
        Ok(variant.wiring(
            dev,
            interface,
            delay(c"rx-internal-delay-ps"),
            delay(c"tx-internal-delay-ps"),
            link_pin,
        ))
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
    type IdInfo = Variant;
    type Data<'bound> = BoundDevice<'bound>;
    const OF_ID_TABLE: Option<of::IdTable<Self::IdInfo>> = Some(&OF_TABLE);

    fn probe<'bound>(
        pdev: &'bound platform::Device<Core<'_>>,
        variant: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        Self::setup(pdev, variant)
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
