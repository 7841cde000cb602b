package kubelet

import (
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/node"
)

// maxPods is how many pods a node accepts.
const maxPods = 110

// machine has the facts about this machine.
type machine struct {
	capacity corev1.ResourceList
	info     corev1.NodeSystemInfo
}

func readMachine(root string) (machine, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return machine{}, err
	}
	memory, disk, kernel := sizes(root)
	return machine{
		capacity: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
			corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
		},
		info: corev1.NodeSystemInfo{
			MachineID: line("/etc/machine-id"), BootID: line("/proc/sys/kernel/random/boot_id"), SystemUUID: line("/sys/class/dmi/id/product_uuid"),
			KernelVersion: kernel, OSImage: osName(),
		},
	}, nil
}

// line returns the content of a small file, or "".
func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func osName() string {
	for l := range strings.Lines(line("/etc/os-release")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(l), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return runtime.GOOS
}

// OwnAddress returns the machine's first address that others can reach, or else a loopback address.
func OwnAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
				return ip.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

func (k *Kubelet) capacity() corev1.ResourceList {
	all := k.machine.capacity.DeepCopy()
	for name, q := range k.options.Capacity {
		all[name] = q
	}
	return all
}

// facts returns the node's current facts for its Node object.
func (k *Kubelet) facts() node.Facts {
	f := node.Facts{
		Name: k.options.Name, Addresses: k.options.Addresses, Labels: k.options.Labels, Taints: k.options.Taints, ProviderID: k.options.ProviderID,
		Annotations: map[string]string{node.LocalVolumes: k.furnish.LocalDirectory()},
		Capacity:    k.capacity(), Reserved: k.options.Reserved, Info: k.machine.info,
	}
	if k.server != nil {
		f.Port = k.server.Port()
	}
	k.addDevices(&f)
	f.Pressure = k.pressed.Conditions()
	if k.drivers != nil {
		f.InUse = k.drivers.InUse()
	}
	var runtime container.Version
	f.NotReady, runtime, f.Images = k.health.report()
	if runtime.Name != "" {
		f.Info.ContainerRuntimeVersion, f.Handlers, f.Features = runtime.String(), runtime.Handlers, &runtime.Features
	}
	return f
}

func now() time.Time { return time.Now() }
