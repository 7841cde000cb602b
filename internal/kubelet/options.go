package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/logs"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// Runtime is a container runtime with all that a kubelet needs. Package cri has one for CRI runtimes, and package
// runtimetest one for tests.
type Runtime interface {
	container.Runtime
	container.Images
	container.Status
	container.ImageStore
	container.StatsSource
	container.Streamer
	Close() error
}

// Options configure a Kubelet. Socket or Runtime is required. Everything else has a default.
type Options struct {
	// Clients reach the API server. Without them the kubelet runs standalone.
	Clients *loop.Clients
	// Name is the node's name: the host name by default.
	Name string
	// Socket is the path of a CRI runtime's socket. Runtime may be set instead.
	Socket  string
	Runtime Runtime
	// UnsafeSysctls are those that pods may set besides the safe ones: names, or their beginnings with a star.
	UnsafeSysctls []string
	// Root is the directory for volumes: /var/lib/millrace/kubelet by default. Logs is the directory for logs: "pods"
	// below Root by default.
	Root, Logs string
	// SecretsOnDisk keeps pods' secrets and tokens below Root in place of a tmpfs, for tests: mounting needs root.
	SecretsOnDisk bool
	// ServeDevices lets device plugins register in DevicePlugins, and agents ask in the directory pod-resources below
	// Root which devices pods have.
	ServeDevices bool
	// DevicePlugins is /var/lib/kubelet/device-plugins by default: device plugins know no other path, whatever Root is.
	DevicePlugins string
	// Manifests is a file or directory of static pods. ManifestURL serves static pods; requests to it carry
	// ManifestHeader.
	Manifests      string
	ManifestURL    string
	ManifestHeader http.Header
	// SourceEvery is how often files are read, and URLEvery the URL: 20 s by default.
	SourceEvery, URLEvery time.Duration
	// Addresses are the node's addresses: the machine's first address by default.
	Addresses []string
	Labels    map[string]string
	Taints    []corev1.Taint
	// Capacity overrides the measured capacity. Reserved is subtracted from what pods may use.
	Capacity, Reserved corev1.ResourceList
	// Resolver is the file that configures the resolver of pods that use the node's: the machine's own by default.
	Resolver      string
	ClusterDNS    []string
	ClusterDomain string
	CgroupParent  string
	// SeccompDefault gives containers that name no seccomp profile the runtime's. NoCPUQuota does not enforce limits of
	// CPU time.
	SeccompDefault, NoCPUQuota bool
	// StatusImages is how many images are listed in the node's status. Nil means 50, a negative number all.
	StatusImages *int
	// ProviderID is the node's name at the cloud provider.
	ProviderID string
	// NoRegister never makes the Node object. The kubelet waits until somebody else has made it.
	NoRegister bool
	// The node's lease is renewed each LeaseEvery and valid for LeaseFor: 10 s and 40 s. The node's status is written
	// each StatusEvery if nothing has changed: 5 minutes.
	LeaseEvery, LeaseFor, StatusEvery time.Duration
	// Pulls is how many images are pulled at the same time. 0 means no limit.
	Pulls int
	// PullRate is how many pulls begin in a second, after PullBurst of them. 0 means no limit.
	PullRate, PullBurst int
	// CredentialPlugins is a file with a CredentialProviderConfig, or a directory of such, and CredentialPrograms the
	// directory of the programs. If empty, only secrets have the credentials of registries.
	CredentialPlugins, CredentialPrograms string
	// PIDs is how many processes a container may have; 0 means no limit. CPUPeriod is the period in which limits of CPU
	// time apply: 100 ms by default.
	PIDs      int64
	CPUPeriod time.Duration
	// RequestTime bounds requests to the runtime: two minutes by default.
	RequestTime               time.Duration
	Backoff                   worker.Backoff
	Rotation                  logs.Rotation
	ImageHighUse, ImageLowUse int // in percent of the disk: 85 and 80
	// ImageRest is how long an image is kept after it was first seen, because its pod may not have started yet: 2
	// minutes by default.
	ImageRest time.Duration
	// Eviction has the eviction thresholds. Hard is pressure.Default if nil.
	Eviction pressure.Limits
	// EvictionGrace is the longest grace period of pods that are evicted because of a soft threshold: one second by
	// default. A negative one means the pods' own.
	EvictionGrace time.Duration
	// PressureHolds is how long a pressure condition stays after the shortage has ended: 5 minutes by default.
	PressureHolds time.Duration
	// Server configures the server that the API server calls: on port 10250 by default.
	Server server.Access
	Logger *slog.Logger
}

func (o *Options) setDefaults() error {
	if o.Runtime == nil && o.Socket == "" {
		return errors.New("a container runtime socket is required, for example unix:///run/containerd/containerd.sock")
	}
	o.Socket = strings.TrimPrefix(o.Socket, "cri:")
	if o.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find the node's name: %w", err)
		}
		o.Name = strings.ToLower(name)
	}
	if err := checkUnsafeSysctls(o.UnsafeSysctls); err != nil {
		return err
	}
	o.Root, o.DevicePlugins = cmp.Or(o.Root, "/var/lib/millrace/kubelet"), cmp.Or(o.DevicePlugins, filepath.Clean(deviceplugin.DevicePluginPath))
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return err
	}
	o.Root = root
	o.Logs = cmp.Or(o.Logs, filepath.Join(root, "logs"))
	o.Server.Listen = cmp.Or(o.Server.Listen, ":10250")
	o.ImageHighUse, o.ImageLowUse = cmp.Or(o.ImageHighUse, 85), cmp.Or(o.ImageLowUse, 80)
	if o.StatusImages == nil {
		o.StatusImages = new(50)
	}
	o.ImageRest, o.PressureHolds = cmp.Or(o.ImageRest, 2*time.Minute), cmp.Or(o.PressureHolds, 5*time.Minute)
	if o.Eviction.Hard == nil {
		o.Eviction.Hard = pressure.Default()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Addresses) == 0 {
		o.Addresses = []string{OwnAddress()}
	}
	return nil
}
