//! The fields of a system's JSON, as the rules and the official checker have them.

/// One field.
#[derive(Debug, PartialEq, Eq)]
pub struct SystemField {
    pub name: &'static str,
    /// It must not be empty; others may be empty, but must exist.
    pub meaningful: bool,
    pub meaning: &'static str,
    pub example: &'static str,
}

const fn must(name: &'static str, meaning: &'static str, example: &'static str) -> SystemField {
    SystemField { name, meaningful: true, meaning, example }
}

const fn may(name: &'static str, meaning: &'static str, example: &'static str) -> SystemField {
    SystemField { name, meaningful: false, meaning, example }
}

/// The default submitter: a placeholder.
pub const EXAMPLE_SUBMITTER: &str = "Example";

/// In the order of the rules.
pub const FIELDS: [SystemField; 35] = [
    must("division", "closed, open or network", "closed"),
    must("submitter", "your organization, as its folder is called", EXAMPLE_SUBMITTER),
    must("status", "whether one can buy it: available, preview or rdi", "available"),
    must("system_name", "what the system is called in the table of results", "8xH200 server"),
    must("number_of_nodes", "hosts that one result was measured on", "1"),
    must("host_processor_model_name", "the CPU", "Intel(R) Xeon(R) Platinum 8480C"),
    must("host_processors_per_node", "sockets of a host", "2"),
    must("host_processor_core_count", "cores of one CPU", "56"),
    must("host_memory_capacity", "memory of a host", "2 TB"),
    must("host_storage_capacity", "disks of a host", "30 TB"),
    must("host_storage_type", "kind of those disks", "NVMe SSD"),
    must("accelerators_per_node", "accelerators of a host", "8"),
    must("accelerator_model_name", "the accelerator", "NVIDIA H200-SXM-141GB"),
    must("accelerator_memory_capacity", "memory of one accelerator", "141 GB"),
    must("framework", "what the model runs on, with versions", "TensorRT-LLM 0.20, CUDA 12.9"),
    must("operating_system", "of the host, with its version", "Ubuntu 24.04.2"),
    must("system_type", "datacenter, edge, or datacenter,edge", "datacenter"),
    must("other_software_stack", "everything else that matters, with versions", "Triton 25.05, driver 575.57"),
    may("host_processor_frequency", "of the CPU", "3.8 GHz"),
    may("host_processor_caches", "of the CPU", "L1d 48K, L2 2M, L3 105M"),
    must("host_memory_configuration", "modules and their speed", "32x 64GB DDR5-4800"),
    may("host_processor_interconnect", "between the CPUs", "UPI 16 GT/s"),
    must("host_networking", "network cards between hosts, or to clients", "8x 400Gbps InfiniBand"),
    must("host_networking_topology", "how hosts are connected", "single host"),
    may("accelerator_frequency", "of the accelerator", "1980 MHz"),
    must("accelerator_host_interconnect", "between accelerator and host", "PCIe Gen5 x16"),
    must("accelerator_interconnect", "between accelerators", "18x 4th-gen NVLink, 900 GB/s"),
    may("accelerator_interconnect_topology", "how accelerators are connected", "NVSwitch, all to all"),
    must("accelerator_memory_configuration", "kind of that memory", "HBM3e"),
    may("accelerator_on-chip_memories", "caches and registers of the accelerator", "50 MB L2"),
    must("cooling", "air-cooled, liquid-cooled, passive", "air-cooled"),
    may("hw_notes", "anything a reader should know about the hardware", "power limit 700 W"),
    may("sw_notes", "anything a reader should know about the software", "-"),
    must("host_network_card_count", "network cards of a host", "10"),
    may("system_type_detail", "more on the type", "rack server"),
];
