package flags

// UnusedByClients are the flags without effect that kube-controller-manager and kube-scheduler have in common.
var UnusedByClients = Unused{
	{unusedBool, []string{
		"authentication-skip-lookup", "authentication-tolerate-lookup-failure", "disable-http2-serving", "log-json-split-stream", "log-text-split-stream",
		"permit-address-sharing", "permit-port-sharing",
	}},
	{unusedInt, []string{"http2-max-streams-per-connection"}},
	{unusedDuration, []string{"log-flush-frequency"}},
	{unusedString, []string{"allow-metric-labels-manifest", "cert-dir", "show-hidden-metrics-for-version"}},
	{unusedStrings, []string{"disabled-metrics", "emulated-version", "min-compatibility-version"}},
	{unusedPairs, []string{"allow-metric-labels"}},
	{unusedPatterns, []string{"vmodule"}},
	{unusedQuantity, []string{"log-json-info-buffer-size", "log-text-info-buffer-size"}},
}

// UnusedByControllers are the others of kube-controller-manager. Loops here follow events, so that flags for the time
// between two polls mean nothing; what belongs to cloud providers, to FlexVolumes and to the migration of leaders does
// not exist.
var UnusedByControllers = append(Unused{
	{unusedBool, []string{
		"configure-cloud-routes", "disable-attach-detach-reconcile-sync", "enable-hostpath-provisioner", "enable-leader-migration",
	}},
	{unusedInt, []string{
		"max-endpoints-per-slice", "mirroring-max-endpoints-per-subset", "pv-recycler-increment-timeout-nfs", "pv-recycler-minimum-timeout-hostpath", "pv-recycler-minimum-timeout-nfs",
		"pv-recycler-timeout-increment-hostpath",
	}},
	{unusedDuration, []string{
		"attach-detach-reconcile-sync-period", "controller-shutdown-timeout", "controller-start-interval", "endpoint-updates-batch-period",
		"endpointslice-updates-batch-period", "min-resync-period", "mirroring-endpointslice-updates-batch-period", "namespace-sync-period",
		"node-monitor-period", "pvclaimbinder-sync-period", "resource-quota-sync-period", "route-reconciliation-period",
	}},
	{unusedString, []string{
		"cidr-allocator-type", "cloud-config", "cloud-provider", "cluster-name", "external-cloud-volume-plugin", "flex-volume-plugin-dir",
		"leader-migration-config", "pv-recycler-pod-template-filepath-hostpath", "pv-recycler-pod-template-filepath-nfs",
	}},
}, UnusedByClients...)

// UnusedByKubelet are those of the kubelet. The container runtime decides on control groups, and the classes of CPUs
// and memory do not exist.
var UnusedByKubelet = Unused{
	{unusedBool, []string{
		"cgroups-per-qos", "contention-profiling", "enable-controller-attach-detach",
		"enable-server", "exit-on-lock-contention", "fail-cgroupv1", "fail-swap-on", "kernel-memcg-notification",
		"local-storage-capacity-isolation", "log-json-split-stream", "log-text-split-stream", "make-iptables-util-chains", "protect-kernel-defaults",
		"runonce",
	}},
	{unusedInt, []string{
		"max-open-files", "maximum-dead-containers", "maximum-dead-containers-per-container",
		"read-only-port",
	}},
	{unusedDuration, []string{
		"cpu-manager-reconcile-period", "log-flush-frequency", "minimum-container-ttl-duration",
		"streaming-connection-idle-timeout", "sync-frequency", "volume-stats-agg-period",
	}},
	{unusedString, []string{
		"cgroup-driver", "cloud-provider", "cpu-manager-policy", "experimental-mounter-path", "hairpin-mode",
		"image-service-endpoint", "kube-reserved-cgroup", "kubelet-cgroups",
		"lock-file", "memory-manager-policy", "pod-cidr", "reserved-cpus", "runtime-cgroups", "system-cgroups", "system-reserved-cgroup",
		"topology-manager-policy", "topology-manager-scope", "volume-plugin-dir",
	}},
	{unusedStrings, []string{
		"cpu-manager-policy-options", "enforce-node-allocatable", "qos-reserved", "reserved-memory", "topology-manager-policy-options",
	}},
	{unusedPatterns, []string{"vmodule"}},
	{unusedQuantity, []string{"log-json-info-buffer-size", "log-text-info-buffer-size"}},
}

// UnusedByProxy are those of kube-proxy: what belongs to its other modes, and periods between two polls. --healthz-port
// and --metrics-port have made way for --healthz-bind-address and --metrics-bind-address.
var UnusedByProxy = Unused{
	{unusedBool, []string{
		"bind-address-hard-fail", "iptables-localhost-nodeports", "ipvs-strict-arp", "log-json-split-stream", "log-text-split-stream", "profiling",
	}},
	{unusedInt, []string{"healthz-port", "iptables-masquerade-bit", "metrics-port"}},
	{unusedDuration, []string{
		"config-sync-period", "iptables-min-sync-period", "iptables-sync-period", "ipvs-min-sync-period", "ipvs-sync-period", "ipvs-tcp-timeout",
		"ipvs-tcpfin-timeout", "ipvs-udp-timeout", "log-flush-frequency",
	}},
	{unusedString, []string{
		"bind-address", "ipvs-scheduler", "pod-bridge-interface", "pod-interface-name-prefix", "show-hidden-metrics-for-version",
	}},
	{unusedStrings, []string{"ipvs-exclude-cidrs"}},
	{unusedPatterns, []string{"vmodule"}},
	{unusedQuantity, []string{"log-json-info-buffer-size", "log-text-info-buffer-size"}},
}
