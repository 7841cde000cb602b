package container

import (
	corev1 "k8s.io/api/core/v1"
)

// SandboxSpec is what a sandbox is made from.
type SandboxSpec struct {
	Pod     *corev1.Pod
	Attempt uint32
	// LogDirectory is where the containers' logs are kept.
	LogDirectory string
	Hostname     string
	DNS          *DNS
}

// DNS is what a pod's resolver is told.
type DNS struct {
	Servers, Searches, Options []string
}

// Spec is what a container is made from.
type Spec struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Attempt   int32
	Hash      uint64
	// ImageRef is how the runtime calls the image.
	ImageRef string
	// LogPath is relative to the sandbox's log directory.
	LogPath string
	Env     []Variable
	Command []string
	Args    []string
	Mounts  []Mount
	Sandbox *SandboxSpec
	// Target is the container whose processes this one shall see.
	Target string
}

// Variable is one variable of the environment.
type Variable struct{ Name, Value string }

// Mount makes a folder or file of the node appear in a container.
type Mount struct {
	Container, Host string
	ReadOnly        bool
	Propagation     corev1.MountPropagationMode
	RecursiveRO     bool
	Relabel         bool
}
