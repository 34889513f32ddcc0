// SPDX-License-Identifier: GPL-2.0

//! NAPI: polling of a queue in softirq context, or in a thread of its own.
//!
//! What is polled is owned by the [`Napi`] while that is enabled, and only the poll function
//! can touch it; disabling gives it back. So it needs no lock, and it cannot be freed too early.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use core::{
    cell::UnsafeCell,
    marker::PhantomPinned,
    ptr::NonNull, //
};

use kernel::{
    container_of,
    cpu::CpuId,
    ffi::c_int,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use super::netdev::{
    Locked,
    NetDevice,
    Operations, //
};
use crate::bindings;

/// What a [`Napi`] polls.
pub(crate) trait Poll: Send + Sized {
    /// The network device that the queue belongs to.
    type Device: Operations;

    /// Does the work that there is, of which at most `budget` received packets, and returns their
    /// number.
    ///
    /// Returning `budget` means that there may be more to do. A budget of 0 comes from netpoll:
    /// transmitted packets may be reclaimed then, but none may be received.
    fn poll(&mut self, cx: &Context<'_, Self::Device>) -> usize;

    /// Unmasks the interrupts of the queue: there is nothing to do. The context is complete, so
    /// that another CPU may poll already; what this looks at, a poll must leave alone.
    fn rearm(&self, dev: &NetDevice<Self::Device>);
}

/// The NAPI context of one queue.
///
/// The core knows of it only while it is enabled. In between it would make the core wait: to switch
/// off polls by threads, that waits until no context is disabled, with the lock of the device,
/// which enabling and removing one takes.
///
/// # Invariants
///
/// - While it is enabled, `napi` is in the list of a network device of type `P::Device`. While it
///   is not, it is in no list, and its state says that it is scheduled: nobody can schedule it.
/// - `poll` is `Some` exactly as long as it is enabled. While it is, only the poll callback
///   accesses it; while it is not, only the holder of RTNL does.
#[pin_data(PinnedDrop)]
pub(crate) struct Napi<P: Poll> {
    #[pin]
    napi: Opaque<bindings::napi_struct>,
    poll: UnsafeCell<Option<P>>,
    /// The next poll follows another one, without an interrupt in between. Read and written once at
    /// a time, by volatile accesses: atomic ones are calls.
    continues: UnsafeCell<bool>,
    queue: u16,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: What is shared is scheduling, which is atomic, and a flag, which is read and written as a
// whole; `poll` has one user at a time.
unsafe impl<P: Poll> Send for Napi<P> {}
// SAFETY: As above.
unsafe impl<P: Poll> Sync for Napi<P> {}

impl<P: Poll> Napi<P> {
    /// Creates the context of a queue, disabled.
    pub(crate) fn new(queue: u16) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                napi <- Opaque::zeroed(),
                poll: UnsafeCell::new(None),
                continues: UnsafeCell::new(false),
                queue,
                _pin: PhantomPinned,
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: In no list, and scheduled as far as anybody can tell.
        //
        // SAFETY: Nobody else has the context yet.
        unsafe { (*this.napi.get()).state = bindings::RAVB_RS_CONST_NAPIF_STATE_SCHED };
        Ok(this)
    }

    /// Lets the context poll `poll`, and tells the core which queues and which interrupt it serves.
    /// May sleep.
    ///
    /// It must be disabled before it is dropped; failing that is a bug.
    pub(crate) fn enable(&self, dev: &mut Locked<'_, P::Device>, irq: u32, poll: P) {
        use bindings::netdev_queue_type::{
            NETDEV_QUEUE_TYPE_RX,
            NETDEV_QUEUE_TYPE_TX, //
        };

        // SAFETY: While the context is disabled, RTNL protects `poll`.
        unsafe { *self.poll.get() = Some(poll) };
        // SAFETY: As above.
        unsafe { self.continues.get().write_volatile(false) };

        let napi = self.napi.get();
        // INVARIANT: `poll` was set above, and the device is of the type that `poll_callback`
        // expects.
        //
        // SAFETY: RTNL is held and the lock of the device is taken, the context is pinned and in no
        // list, and the device has a configuration slot for each of its queues.
        unsafe {
            bindings::ravb_helper_netdev_lock(dev.as_raw());
            bindings::ravb_helper_netif_napi_add_config_locked(
                dev.as_raw(),
                napi,
                Some(Self::poll_callback),
                c_int::from(self.queue),
            );
            bindings::netif_napi_set_irq_locked(napi, irq as c_int);
            bindings::napi_enable_locked(napi);
            bindings::ravb_helper_netdev_unlock(dev.as_raw());
            for kind in [NETDEV_QUEUE_TYPE_RX, NETDEV_QUEUE_TYPE_TX] {
                bindings::netif_queue_set_napi(dev.as_raw(), u32::from(self.queue), kind, napi);
            }
        }
    }

    /// Waits until nobody polls, prevents that anybody does, and returns what was polled.
    ///
    /// May sleep.
    pub(crate) fn disable(&self, dev: &mut Locked<'_, P::Device>) -> Option<P> {
        use bindings::netdev_queue_type::{
            NETDEV_QUEUE_TYPE_RX,
            NETDEV_QUEUE_TYPE_TX, //
        };

        // INVARIANT: The context stays scheduled, as far as anybody can tell.
        //
        // SAFETY: The context is enabled, RTNL is held, and the lock of the device is taken.
        unsafe {
            for kind in [NETDEV_QUEUE_TYPE_RX, NETDEV_QUEUE_TYPE_TX] {
                bindings::netif_queue_set_napi(
                    dev.as_raw(),
                    u32::from(self.queue),
                    kind,
                    core::ptr::null_mut(),
                );
            }
            bindings::ravb_helper_netdev_lock(dev.as_raw());
            bindings::napi_disable_locked(self.napi.get());
            bindings::__netif_napi_del_locked(self.napi.get());
            bindings::ravb_helper_netdev_unlock(dev.as_raw());
            // Nobody looks at it in the list any more; and the last poll may have completed without
            // being at its end: it may unmask still.
            bindings::synchronize_net();
        }
        // SAFETY: The context is disabled now: RTNL protects `poll`.
        unsafe { (*self.poll.get()).take() }
    }

    /// Schedules a poll, unless there is one already, and returns whether it did. Callable in hard
    /// interrupt context.
    ///
    /// The caller has masked the interrupts of the queue: [`Poll::rearm`] unmasks them.
    #[inline]
    pub(crate) fn schedule(&self) -> bool {
        let napi = self.napi.get();
        // Where a poll is under way already, the first call makes it go on.
        //
        // SAFETY: `prep` fails unless the context is enabled, by the invariant; `__napi_schedule`
        // follows a successful one.
        unsafe {
            let scheduled = bindings::napi_schedule_prep(napi);
            if scheduled {
                bindings::__napi_schedule(napi);
            }
            scheduled
        }
    }

    /// Which queue the context serves.
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Returns the C context.
    pub(super) fn as_raw(&self) -> *mut bindings::napi_struct {
        self.napi.get()
    }

    /// # Safety
    ///
    /// Must only be called by the core for a context that [`Napi::enable`] enabled.
    unsafe extern "C" fn poll_callback(napi: *mut bindings::napi_struct, budget: c_int) -> c_int {
        // SAFETY: `napi` is embedded in a `Napi<P>`, which is alive while it is enabled.
        let this = unsafe { &*container_of!(Opaque::cast_from(napi), Self, napi) };
        // SAFETY: The device that the context was added to, of this type.
        let dev = unsafe { NetDevice::<P::Device>::from_raw((*napi).dev) };
        // SAFETY: By the invariant, `poll` is ours until the context is complete. After that it is
        // only looked at, by `rearm`, which keeps away from what a poll changes.
        let Some(poll) = (unsafe { (*this.poll.get()).as_mut() }) else {
            return 0;
        };

        let budget = budget.unsigned_abs() as usize;
        let cx = Context {
            napi,
            dev,
            budget,
            queue: this.queue,
            // SAFETY: The flag is valid as long as `this`; who comes late leaves `false`.
            continues: unsafe { this.continues.get().read_volatile() },
        };
        // SAFETY: As above.
        unsafe { this.continues.get().write_volatile(true) };
        // SAFETY: Called in the poll of this context.
        let owner = unsafe { Owner::claim(napi, budget) };
        let done = poll.poll(&cx).min(budget);

        // The completion passes up what GRO still has.
        //
        // SAFETY: Called in the poll of this context, with less than its budget.
        let unmask = done < budget && unsafe { bindings::napi_complete_done(napi, done as c_int) };
        drop(owner);
        if unmask {
            // Before the unmasking, which is what another CPU can learn of it by.
            //
            // SAFETY: As above.
            unsafe { this.continues.get().write_volatile(false) };
            poll.rearm(dev);
        }
        done as c_int
    }
}

/// Says which CPU polls, where the core does not.
///
/// What a softirq polls has an owner, by which page pools know that buffers that are freed
/// meanwhile on the same CPU can be put where the poll takes them from. The core leaves it out for
/// threads and sockets that poll, so that their buffers go through a ring with a lock. A poll keeps
/// bottom halves off, whoever does it: it cannot move to another CPU, and nothing else that handles
/// packets runs on this one. Under `PREEMPT_RT` that need not be so, and nothing is claimed.
///
/// The core clears it where a poll is completed, before another CPU can poll. That it is cleared
/// here again does no harm: buffers of a poll without an owner go through the ring.
///
/// # Invariants
///
/// `napi` is valid, and this CPU polls it and was made its owner, unless this is `None`. It may
/// have ceased to be that since.
struct Owner(Option<NonNull<bindings::napi_struct>>);

impl Owner {
    /// The owner of a context that has none.
    const NOBODY: c_int = -1;

    /// Makes this CPU the owner of a context that has none.
    ///
    /// # Safety
    ///
    /// Must be called in the poll of `napi`, with its budget. The result must not outlive that.
    #[inline]
    unsafe fn claim(napi: *mut bindings::napi_struct, budget: usize) -> Self {
        // SAFETY: The context is valid while it is polled.
        let place = unsafe { &raw mut (*napi).list_owner };
        // Without a budget this is netpoll, which may have interrupts off instead of softirqs.
        if cfg!(CONFIG_PREEMPT_RT) || budget == 0 {
            return Self(None);
        }
        // SAFETY: Valid as above. Readers expect that the value changes at any time.
        if unsafe { place.read_volatile() } != Self::NOBODY {
            return Self(None);
        }
        // SAFETY: As above; nobody else writes while the context is polled.
        unsafe { place.write_volatile(CpuId::current().as_u32() as c_int) };
        // INVARIANT: Owned as of now.
        Self(NonNull::new(napi))
    }
}

impl Drop for Owner {
    #[inline]
    fn drop(&mut self) {
        if let Some(napi) = self.0 {
            // SAFETY: By the invariant, the context is valid; anybody may clear the owner.
            unsafe { (&raw mut (*napi.as_ptr()).list_owner).write_volatile(Self::NOBODY) };
        }
    }
}

#[pinned_drop]
impl<P: Poll> PinnedDrop for Napi<P> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Whether there is something to poll changes with `enable` and `disable` only,
        // which nobody can call any more.
        let enabled = unsafe { (*self.poll.get()).is_some() };
        // The core still has a pointer to the context: going on would be a use after free.
        assert!(!enabled, "NAPI context dropped while it is enabled");
    }
}

/// Proof that the caller is in a poll, in softirq context or in a NAPI thread with softirqs off.
pub(crate) struct Context<'a, T: Operations> {
    napi: *mut bindings::napi_struct,
    dev: &'a NetDevice<T>,
    budget: usize,
    queue: u16,
    continues: bool,
}

impl<T: Operations> Context<'_, T> {
    /// The device that is polled.
    #[inline]
    pub(crate) fn dev(&self) -> &NetDevice<T> {
        self.dev
    }

    /// How many packets may be received.
    #[inline]
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// The queue that is polled.
    #[inline]
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Whether the poll follows another one, without an interrupt in between.
    #[inline]
    pub(crate) fn continues(&self) -> bool {
        self.continues
    }

    /// Returns the C context.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::napi_struct {
        self.napi
    }
}
