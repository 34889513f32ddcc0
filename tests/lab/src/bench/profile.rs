// SPDX-License-Identifier: GPL-2.0
//! What the guest executed between two marks: reading the plugin's output (`tests/qemu/profile.c`)
//! and attributing it to functions and places.

use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;

/// Where an instruction was executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    /// The driver's own text.
    Driver,
    /// C wrappers of inline functions, the driver's and those of the kernel's Rust support.
    Wrappers,
    /// Page pools.
    PagePool,
    /// DMA mapping and cache maintenance.
    Dma,
    /// From the interrupt to the handler of the driver and back.
    Irq,
    /// What makes packets to be sent.
    Source,
    /// The rest of the kernel.
    Core,
    /// User programs.
    User,
}

/// All that count, in the order of a table.
pub(crate) const PLACES: &[Place] = &[
    Place::Driver,
    Place::Wrappers,
    Place::PagePool,
    Place::Dma,
    Place::Irq,
    Place::Core,
    Place::User,
];

impl Place {
    /// What a driver answers for: what it contains and what it chooses to call.
    pub(crate) fn is_owned(self) -> bool {
        use Place::{Dma, Driver, PagePool, Wrappers};
        matches!(self, Driver | Wrappers | PagePool | Dma)
    }

    /// Key in reports.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Place::Driver => "driver",
            Place::Wrappers => "wrappers",
            Place::PagePool => "page_pool",
            Place::Dma => "dma",
            Place::Irq => "irq_entry",
            Place::Core => "core",
            Place::Source => "source",
            Place::User => "user",
        }
    }

    /// Name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Place::Driver => "driver text",
            Place::Wrappers => "C wrappers",
            Place::PagePool => "page pool",
            Place::Dma => "DMA and caches",
            Place::Irq => "IRQ entry",
            Place::Core => "rest of the kernel",
            Place::Source => "packet generator",
            Place::User => "user programs",
        }
    }

    fn of(name: &str, module: &str) -> Place {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if starts(WRAPPERS) {
            return Place::Wrappers;
        }
        match module {
            "ravb" | "ravb_rs" => Place::Driver,
            "pktgen" => Place::Source,
            // Rust functions of the kernel's own.
            _ if name.starts_with("_R") => Place::Wrappers,
            _ if starts(PAGE_POOL) => Place::PagePool,
            _ if starts(DMA) => Place::Dma,
            _ if starts(IRQ) => Place::Irq,
            _ => Place::Core,
        }
    }
}

const WRAPPERS: &[&str] = &["rust_helper_", "ravb_helper_"];
const PAGE_POOL: &[&str] = &["page_pool_", "__page_pool_", "napi_pp_put_page"];
const DMA: &[&str] = &[
    "dma_",
    "__dma_",
    "arch_sync_dma",
    "swiotlb_",
    "iommu_dma_",
    "dcache_",
    "caches_",
    "is_swiotlb",
];
const IRQ: &[&str] = &[
    "vectors",
    "el1h_64_irq",
    "el1_interrupt",
    "el1_irq",
    "el1_exit",
    "el0t_64_irq",
    "__el1_irq",
    "__el0_irq",
    "el0_interrupt",
    "arm64_enter_",
    "arm64_exit_",
    "enter_from_kernel",
    "exit_to_kernel",
    "ret_to_kernel",
    "call_on_irq_stack",
    "do_interrupt_handler",
    "gic_",
    "generic_handle_",
    "handle_irq_",
    "handle_fasteoi_irq",
    "__handle_irq",
    "irq_",
    "__irq_",
    "note_interrupt",
    "add_interrupt_randomness",
];

/// A function.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Symbol {
    /// As the kernel knows it.
    pub(crate) name: String,
    /// Its module, or nothing.
    pub(crate) module: String,
}

impl Symbol {
    /// For people.
    pub(crate) fn display(&self) -> String {
        let name = format!("{:#}", rustc_demangle::demangle(&self.name));
        match self.module.as_str() {
            "" => name,
            module => format!("{name} [{module}]"),
        }
    }

    /// Where it belongs.
    pub(crate) fn place(&self) -> Place {
        match self.name.as_str() {
            USER => Place::User,
            name => Place::of(name, &self.module),
        }
    }
}

/// Name of what user programs execute.
const USER: &str = "(user)";

/// Name of what modules execute whose symbols were not looked up.
const OTHER: &str = "(modules)";

/// Where the addresses of the kernel begin.
const KERNEL: u64 = 1 << 63;

/// Functions by address: what /proc/kallsyms has of the kernel, and of modules what their files
/// have.
pub(crate) struct Symbols(BTreeMap<u64, (Symbol, u64)>);

impl Symbols {
    /// Reads lines of /proc/kallsyms.
    pub(crate) fn parse(text: &str) -> Symbols {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            let module = words.next().unwrap_or("");
            (matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$')).then(|| {
                let symbol = Symbol {
                    name: name.to_string(),
                    module: module.trim_matches(['[', ']']).to_string(),
                };
                // It reaches to the next one.
                (address, (symbol, u64::MAX))
            })
        };
        let mut map = BTreeMap::new();
        for (address, symbol) in text.lines().filter_map(line) {
            // Of several names the first: the kernel lists them in the order of the linker.
            map.entry(address).or_insert(symbol);
        }
        Symbols(map)
    }

    /// Adds those of a module's section, from the symbol table that objdump prints:
    ///
    /// `0000000000000010 l     F .text\t0000000000000040 name`
    pub(crate) fn add_module(&mut self, module: &str, table: &str, section: &str, base: u64) {
        let line = |line: &str| {
            let (left, right) = line.split_once('\t')?;
            let mut left = left.split_whitespace();
            let offset = u64::from_str_radix(left.next()?, 16).ok()?;
            let (size, name) = right.split_once(' ')?;
            let size = u64::from_str_radix(size, 16).ok()?;
            let symbol = Symbol {
                // Visibility may stand before the name.
                name: name.rsplit(' ').next()?.to_string(),
                module: module.to_string(),
            };
            let mut rest = left.rev();
            (rest.next() == Some(section) && rest.next() == Some("F"))
                .then_some((base + offset, (symbol, size)))
        };
        self.0.extend(table.lines().filter_map(line));
    }

    /// Where the function begins that contains an address: also for what has no name.
    fn start(&self, address: u64) -> u64 {
        match self.0.range(..=address).next_back() {
            _ if address < KERNEL => 0,
            Some((start, (_, size))) if address - start < *size => *start,
            _ => KERNEL,
        }
    }

    /// The function that begins there.
    fn symbol(&self, start: u64) -> Symbol {
        let named = |name: &str| Symbol {
            name: name.to_string(),
            module: String::new(),
        };
        match self.0.get(&start) {
            Some((symbol, _)) => symbol.clone(),
            None if start == 0 => named(USER),
            None => named(OTHER),
        }
    }
}

/// Kinds of instructions that cost more than others on real processors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Data barriers.
    Barrier,
    /// Cache maintenance by address.
    CacheLine,
    /// Division.
    Division,
    /// Atomic read-modify-write and exclusive accesses.
    Atomic,
    /// Load-acquire and store-release.
    Ordered,
    /// Calls.
    Call,
}

/// All of them.
pub(crate) const CLASSES: &[Class] = &[
    Class::Barrier,
    Class::CacheLine,
    Class::Division,
    Class::Atomic,
    Class::Ordered,
    Class::Call,
];

impl Class {
    /// Key in reports.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Class::Barrier => "barriers",
            Class::CacheLine => "cache_lines",
            Class::Division => "divisions",
            Class::Atomic => "atomics",
            Class::Ordered => "ordered",
            Class::Call => "calls",
        }
    }

    /// Key in reports, for what the driver's own text executes.
    pub(crate) fn driver_key(self) -> &'static str {
        match self {
            Class::Barrier => "driver_barriers",
            Class::CacheLine => "driver_cache_lines",
            Class::Division => "driver_divisions",
            Class::Atomic => "driver_atomics",
            Class::Ordered => "driver_ordered",
            Class::Call => "driver_calls",
        }
    }

    /// By the encoding (Arm ARM, C4.1).
    fn of(code: u32) -> Option<Class> {
        let is = |mask: u32, value: u32| code & mask == value;
        Some(match () {
            // DSB and DMB.
            _ if is(0xffff_f0df, 0xd503_309f) => Class::Barrier,
            // DC: SYS with CRn = C7 and op1 = 0 or 3, CRm 6, 10, 11, 12, 13, 14.
            _ if is(0xfff8_f000, 0xd508_7000) && matches!(code >> 8 & 0xf, 6 | 10..=14) => {
                Class::CacheLine
            }
            // UDIV and SDIV.
            _ if is(0x7fe0_f800, 0x1ac0_0800) => Class::Division,
            // LSE atomics and CAS; exclusive loads and stores.
            _ if is(0x3f20_0c00, 0x3820_0000) => Class::Atomic,
            _ if is(0x3fa0_7c00, 0x08a0_7c00) => Class::Atomic,
            _ if is(0x3f80_0000, 0x0800_0000) => Class::Atomic,
            // LDAR, STLR.
            _ if is(0x3f80_0000, 0x0880_0000) => Class::Ordered,
            // BL, BLR.
            _ if is(0xfc00_0000, 0x9400_0000) || is(0xffff_fc1f, 0xd63f_0000) => Class::Call,
            _ => return None,
        })
    }
}

/// What was executed between two marks.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Profile {
    /// All instructions.
    pub(crate) total: u64,
    /// Instructions by function.
    pub(crate) functions: BTreeMap<Symbol, u64>,
    /// How often the first instruction of a function was executed.
    pub(crate) calls: BTreeMap<Symbol, u64>,
    /// Instructions of certain kinds.
    pub(crate) classes: BTreeMap<Class, u64>,
    /// The same, of the driver alone.
    pub(crate) driver_classes: BTreeMap<Class, u64>,
}

/// Counts while a mark is read: by address, because names are long.
#[derive(Default)]
struct Counts {
    functions: BTreeMap<u64, u64>,
    calls: BTreeMap<u64, u64>,
    classes: BTreeMap<(u64, Class), u64>,
}

impl Counts {
    fn add(&mut self, symbols: &Symbols, address: u64, code: u32, count: u64) {
        let start = symbols.start(address);
        *self.functions.entry(start).or_default() += count;
        if start == address {
            *self.calls.entry(start).or_default() += count;
        }
        if let Some(class) = Class::of(code) {
            *self.classes.entry((start, class)).or_default() += count;
        }
    }

    fn finish(self, symbols: &Symbols) -> Profile {
        let mut profile = Profile::default();
        for (start, count) in self.functions {
            profile.total += count;
            *profile.functions.entry(symbols.symbol(start)).or_default() += count;
        }
        for (start, count) in self.calls {
            *profile.calls.entry(symbols.symbol(start)).or_default() += count;
        }
        for ((start, class), count) in self.classes {
            *profile.classes.entry(class).or_default() += count;
            if symbols.symbol(start).place() == Place::Driver {
                *profile.driver_classes.entry(class).or_default() += count;
            }
        }
        profile
    }
}

/// Reads the plugin's output: for each mark what was executed before it, back to the last one.
pub(crate) fn read(text: &str, symbols: &Symbols) -> Result<BTreeMap<u32, Profile>> {
    let mut marks = BTreeMap::new();
    let mut present: Option<(u32, Counts)> = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("mark ") {
            present = Some((number.parse()?, Counts::default()));
        } else if line == "end" {
            let (number, counts) = present.take().context("an end without a mark")?;
            marks.insert(number, counts.finish(symbols));
        } else {
            let Some((_, counts)) = &mut present else {
                bail!("the profile has {line:?} outside a mark")
            };
            let mut words = line.split(' ');
            let mut word = || words.next().with_context(|| format!("{line:?} is short"));
            let address = u64::from_str_radix(word()?, 16)?;
            let code = u32::from_str_radix(word()?, 16)?;
            counts.add(symbols, address, code, word()?.parse()?);
        }
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
ffff800080000000 T one
ffff800080000100 t page_pool_put
ffff800080000100 t alias
ffff800080000200 d data
ffff800080000200 t $x
";
    const MODULE: &str = "
0000000000000000 l    d  .text\t0000000000000000 .text
0000000000000000 l     F .text\t0000000000000030 ravb_poll
0000000000000000 l     F .init.text\t0000000000000030 init
0000000000000040 g     F .text\t0000000000000010 .hidden ravb_helper_x
0000000000000044 l     O .text\t0000000000000010 object
";

    #[test]
    fn counts_go_to_functions_and_places() {
        let mut symbols = Symbols::parse(SYMBOLS);
        symbols.add_module("ravb_rs", MODULE, ".text", 0xffff_8000_7a00_0000);
        let text = "mark 3\n1 0 7\nffff800080000000 0 2\nffff800080000104 d5033bbf 5\n\
                    ffff80007a000040 9ac00800 11\nffff80007a000004 d50b7e20 13\n\
                    ffff80007a000030 0 17\nend\n";
        let profile = &read(text, &symbols).unwrap()[&3];
        assert_eq!(profile.total, 55);
        let functions: Vec<_> = profile
            .functions
            .iter()
            .map(|(symbol, count)| (symbol.place(), *count))
            .collect();
        assert_eq!(
            functions,
            [
                (Place::Core, 17),
                (Place::User, 7),
                (Place::Core, 2),
                (Place::PagePool, 5),
                (Place::Wrappers, 11),
                (Place::Driver, 13),
            ]
        );
        assert_eq!(profile.classes[&Class::Barrier], 5);
        assert_eq!(profile.classes[&Class::Division], 11);
        assert_eq!(profile.driver_classes[&Class::CacheLine], 13);
        let calls: Vec<_> = profile
            .calls
            .iter()
            .map(|(s, n)| (&s.name[..], *n))
            .collect();
        assert_eq!(calls, [("one", 2), ("ravb_helper_x", 11)]);
        assert!(read("ffff800080000000 0 2\n", &symbols).is_err());
    }

    #[test]
    fn encodings() {
        for (code, class) in [
            (0xd503_3bbf, Some(Class::Barrier)),   // dmb ish
            (0xd503_32bf, Some(Class::Barrier)),   // dmb oshst
            (0xd503_3f9f, Some(Class::Barrier)),   // dsb sy
            (0xd503_3fdf, None),                   // isb
            (0xd503_201f, None),                   // nop
            (0xd508_7620, Some(Class::CacheLine)), // dc ivac, x0
            (0xd50b_7a20, Some(Class::CacheLine)), // dc cvac, x0
            (0xd50b_7e20, Some(Class::CacheLine)), // dc civac, x0
            (0xd508_7520, None),                   // ic iallu-like
            (0x9ac1_0800, Some(Class::Division)),  // udiv x0, x0, x1
            (0x1ac1_0c00, Some(Class::Division)),  // sdiv w0, w0, w1
            (0x9bc1_7c00, None),                   // umulh
            (0xf820_0041, Some(Class::Atomic)),    // ldadd x0, x1, [x2]
            (0xc8a0_7c41, Some(Class::Atomic)),    // cas x0, x1, [x2]
            (0xc85f_7c41, Some(Class::Atomic)),    // ldxr x1, [x2]
            (0xc8df_fc41, Some(Class::Ordered)),   // ldar x1, [x2]
            (0x889f_fc41, Some(Class::Ordered)),   // stlr w1, [x2]
            (0xf940_0041, None),                   // ldr x1, [x2]
            (0xf820_6841, None),                   // str x1, [x2, x0]
            (0x9400_0001, Some(Class::Call)),      // bl
            (0xd63f_0040, Some(Class::Call)),      // blr x2
            (0x1400_0001, None),                   // b
            (0xd65f_03c0, None),                   // ret
        ] {
            assert_eq!(Class::of(code), class, "{code:#x}");
        }
    }
}
