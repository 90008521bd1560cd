//! DPDK's environment: started once per process, when the first DPDK port is named.
//!
//! Runs in memory (nothing is left in the file system), claims no PCI device by itself, starts
//! no thread for packets, and is started on a thread of its own, because it ties the caller to a
//! core. From then on all packets of the process come from one DPDK mempool.

use super::sys;
use engine::packet::pool;
use machine::Machine;
use rustix::process::{Resource, getrlimit};
use sync::Lock;

/// Memory sizes shared by all DPDK ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DpdkSizes {
    /// Packet buffers of the process.
    pub buffers: usize,
    /// Memory that may be used where there are no hugepages, in MiB.
    pub megabytes_without_hugepages: usize,
}

impl DpdkSizes {
    /// Sizes for this many packet buffers; without hugepages their memory is doubled.
    pub fn with_buffers(buffers: usize) -> DpdkSizes {
        DpdkSizes {
            buffers,
            megabytes_without_hugepages: (bytes_of(buffers) >> 19).max(512),
        }
    }

    /// Hugepage memory needed: buffers, and what DPDK and its drivers need for themselves. Buffers do not cross pages,
    /// which costs some more.
    pub fn bytes(&self) -> usize {
        const DPDK: usize = 24 << 20;
        let buffers = bytes_of(self.buffers);
        buffers + buffers / 16 + DPDK
    }
}

impl Default for DpdkSizes {
    /// 65,535 buffers (mempools of a power of two less one waste least memory) and 512 MiB.
    fn default() -> DpdkSizes {
        DpdkSizes::with_buffers(65_535)
    }
}

/// Number of bytes of buffers, including DPDK's overhead for each.
fn bytes_of(buffers: usize) -> usize {
    buffers * (pool::data_bytes() + 512) + pool::LARGE_MAX * (pool::LARGE_BYTES + 512)
}

/// Result of the first start: remarks, or the reason why there is no DPDK.
static STARTED: Lock<Option<Result<Vec<String>, String>>> = Lock::new(None);

/// Starts DPDK unless it runs. Returns remarks for the description of every DPDK port.
///
/// # Errors
/// A sentence; the same one each time, since DPDK cannot be started twice.
pub(super) fn start(sizes: DpdkSizes) -> Result<Vec<String>, String> {
    let mut started = STARTED.lock();
    if started.is_none() && pool::heap_buffers() > 0 {
        // Do not store this error: EAL was not started.
        return Err(
            "packets from the heap are in use already, and DPDK needs all packets to be \
                    its own: restart the program with the DPDK port in its configuration"
                .into(),
        );
    }
    started.get_or_insert_with(|| first_start(sizes)).clone()
}

fn first_start(sizes: DpdkSizes) -> Result<Vec<String>, String> {
    let need = sizes.bytes();
    let machine = Machine::here();
    let huge = machine.free_hugepages();
    let (_, pages) = machine.hugepages_for(need);
    // With hugepages DPDK reserves addresses for far more memory than it uses.
    let is_bounded = getrlimit(Resource::As).current.is_some();
    let mut remarks = Vec::new();
    let mut args: Vec<String> = ["ashlar", "--no-telemetry", "-l"].map(String::from).into();
    args.push(first_cpu());
    // An address at which no driver finds a device: PCI devices are probed when named only.
    args.extend(["-a", "0000:00:00.0", "--log-level=*:error"].map(String::from));
    if huge < need || is_bounded {
        remarks.push(match is_bounded {
            true => "hugepages: the address space of this process is bounded, so DPDK runs without them, slower"
                .to_owned(),
            false => format!(
                "hugepages: {} MiB free, {} MiB needed; DPDK runs without them, slower: reserve some \
                 with `sysctl -w vm.nr_hugepages={}`",
                huge >> 20,
                need >> 20,
                pages
            ),
        });
        let limit = sizes.megabytes_without_hugepages.to_string();
        // DPDK takes --in-memory for hugepages only; the option used here also leaves no files on disk.
        args.extend(["--no-huge", "--no-shconf", "-m", &limit].map(String::from));
    } else {
        args.push("--in-memory".into());
    }
    let failed = |e: String| {
        format!(
            "DPDK ({}) cannot start: {e}; {} packet buffers need {} MiB: ask for fewer (--buffers), or reserve \
             hugepages (`sysctl -w vm.nr_hugepages={pages}`)",
            sys::version(),
            sizes.buffers,
            need >> 20
        )
    };
    let thread = std::thread::Builder::new()
        .name("dpdk".into())
        .spawn(move || sys::start(&args))
        .map_err(|e| failed(e.to_string()))?;
    thread
        .join()
        .map_err(|_| failed("its thread died".into()))?
        .map_err(failed)?;
    super::buffers::make(sizes.buffers).map_err(failed)?;
    Ok(remarks)
}

/// The first CPU that this process may use: `-l` wants one that exists.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let digits = list
        .unwrap_or("0")
        .trim()
        .split(|c: char| !c.is_ascii_digit())
        .next();
    digits
        .filter(|cpu| !cpu.is_empty())
        .unwrap_or("0")
        .to_string()
}
