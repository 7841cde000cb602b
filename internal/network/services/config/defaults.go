package config

import (
	"cmp"
	"net"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// Values of fields that have only one supported value.
const (
	ModeNFTables     v1alpha1.ProxyMode = "nftables"
	LocalClusterCIDR v1alpha1.LocalMode = "ClusterCIDR"
)

// Primary as the only one of nodePortAddresses means the first address of the node in each family.
const Primary = "primary"

// The ports of health and metrics.
const (
	healthPort  = 10256
	metricsPort = 10249
)

// setDefault sets a missing field.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// setDefaults sets kube-proxy's defaults, and nftables as the mode.
func setDefaults(f *File) {
	f.APIVersion = cmp.Or(f.APIVersion, v1alpha1.SchemeGroupVersion.String())
	f.Kind = cmp.Or(f.Kind, "KubeProxyConfiguration")
	f.BindAddress = cmp.Or(f.BindAddress, "0.0.0.0")
	f.HealthzBindAddress = withPort(cmp.Or(f.HealthzBindAddress, "0.0.0.0"), healthPort)
	f.MetricsBindAddress = withPort(cmp.Or(f.MetricsBindAddress, "127.0.0.1"), metricsPort)
	f.Mode = cmp.Or(f.Mode, ModeNFTables)
	f.DetectLocalMode = cmp.Or(f.DetectLocalMode, LocalClusterCIDR)
	if len(f.NodePortAddresses) == 0 {
		f.NodePortAddresses = []string{Primary}
	}
	setDefault(&f.OOMScoreAdj, -999)
	f.ConfigSyncPeriod.Duration = cmp.Or(f.ConfigSyncPeriod.Duration, 15*time.Minute)
	c := &f.ClientConnection
	c.ContentType = cmp.Or(c.ContentType, runtime.ContentTypeProtobuf)
	c.QPS, c.Burst = cmp.Or(c.QPS, 5), cmp.Or(c.Burst, 10)
	setDefault(&f.IPTables.MasqueradeBit, 14)
	setDefault(&f.IPTables.LocalhostNodePorts, true)
	setDefault(&f.NFTables.MasqueradeBit, 14)
	f.NFTables.SyncPeriod.Duration = cmp.Or(f.NFTables.SyncPeriod.Duration, 30*time.Second)
	f.NFTables.MinSyncPeriod.Duration = cmp.Or(f.NFTables.MinSyncPeriod.Duration, time.Second)
	setDefault(&f.Conntrack.MaxPerCore, 32<<10)
	setDefault(&f.Conntrack.Min, 128<<10)
	setDefault(&f.Conntrack.TCPEstablishedTimeout, metav1.Duration{Duration: 24 * time.Hour})
	setDefault(&f.Conntrack.TCPCloseWaitTimeout, metav1.Duration{Duration: time.Hour})
	logsapi.SetRecommendedLoggingConfiguration(&f.Logging)
}

// withPort adds a port to an address that has none.
func withPort(address string, port int) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(port))
}
