package container

import (
	corev1 "k8s.io/api/core/v1"
)

// SandboxSpec describes a sandbox to be made.
type SandboxSpec struct {
	Pod     *corev1.Pod
	Attempt uint32
	// LogDirectory is where the containers' logs are kept.
	LogDirectory string
	Hostname     string
	DNS          *DNS
	// Users are those of the pod's user namespace. Nil means the machine's.
	Users *IDs
	// Handler is the runtime's name for the way in which the pod is run. Empty means the runtime's default.
	Handler string
}

// DNS is the resolver configuration of a pod.
type DNS struct {
	Servers, Searches, Options []string
}

// Spec describes a container to be made.
type Spec struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Attempt   int32
	Hash      uint64
	// ImageRef is the runtime's ID of the image.
	ImageRef string
	// VolumeImages are the runtime's IDs of the images that are volumes, by the volume's name.
	VolumeImages map[string]string
	// LogPath is relative to the sandbox's log directory.
	LogPath string
	Env     []Variable
	Command []string
	Args    []string
	Mounts  []Mount
	// Devices are names of CDI devices, such as "gpu.example.com/gpu=0".
	Devices []string
	// Blocks are volumes of raw blocks.
	Blocks []Block
	// Nodes are files of devices.
	Nodes []DeviceNode
	// Annotations are for the runtime.
	Annotations map[string]string
	Sandbox     *SandboxSpec
	// Target is the container whose process namespace this one shares.
	Target string
}

// Block gives a container a block device of the node.
type Block struct {
	Container, Host string
	ReadOnly        bool
}

// DeviceNode gives a container a device of the node. Permissions are letters: r to read, w to write, m to make more
// such files.
type DeviceNode struct {
	Container, Host, Permissions string
}

// Variable is one variable of the environment.
type Variable struct{ Name, Value string }

// Mount mounts a file or directory of the node, or the files of an image, into a container.
type Mount struct {
	Container, Host string
	// Image is the runtime's ID of an image to mount in place of Host; ImagePath is the directory of the image to
	// mount, empty for its root.
	Image, ImagePath string
	ReadOnly         bool
	Propagation      corev1.MountPropagationMode
	RecursiveRO      bool
	Relabel          bool
}
