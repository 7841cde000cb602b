package container

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod has the sandboxes and containers of one pod in the runtime.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Sandboxes and Containers are ordered, newest first.
	Sandboxes  []Sandbox
	Containers []Container
}

// Sandbox is the environment that the containers of a pod share.
type Sandbox struct {
	ID        string
	Attempt   uint32
	Ready     bool
	CreatedAt time.Time
	IPs       []string
}

// State is the state of a container.
type State int

// The states of a container.
const (
	Unknown State = iota
	Created
	Running
	Exited
)

// Container is one run of a container.
type Container struct {
	ID, Name  string
	SandboxID string
	// Attempt counts the runs of the same name, from 0.
	Attempt    int32
	State      State
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	Reason     string
	Message    string
	Image      string
	ImageRef   string
	// VolumeImages are the images that are mounted as volumes.
	VolumeImages []string
	// Hash is the hash of the definition that the container was made from.
	Hash uint64
	// LogPath is the container's log file.
	LogPath string
	// Grace is the grace period in the definition that the container was made from.
	Grace time.Duration
	// PreStop and Ports are copied from the definition that the container was made from.
	PreStop *corev1.LifecycleHandler
	Ports   []corev1.ContainerPort
	// User is the user of the container's first process, or nil if it is not known.
	User *User
}

// User is a user with its groups.
type User struct {
	UID, GID int64
	Groups   []int64
}

// Sandbox returns the newest sandbox, or nil.
func (p *Pod) Sandbox() *Sandbox {
	if len(p.Sandboxes) == 0 {
		return nil
	}
	return &p.Sandboxes[0]
}

// Container returns the newest run of the container called name, or nil.
func (p *Pod) Container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// Previous returns the run before the newest one, or nil.
func (p *Pod) Previous(name string) *Container {
	seen := false
	for i := range p.Containers {
		switch {
		case p.Containers[i].Name != name:
		case seen:
			return &p.Containers[i]
		default:
			seen = true
		}
	}
	return nil
}

// Runs reports whether any container runs.
func (p *Pod) Runs() bool {
	for i := range p.Containers {
		if p.Containers[i].State == Running {
			return true
		}
	}
	return false
}
