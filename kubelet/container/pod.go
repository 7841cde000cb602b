package container

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is what a runtime has of one pod.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Sandboxes and Containers are ordered: the newest first.
	Sandboxes  []Sandbox
	Containers []Container
}

// Sandbox is what the containers of a pod share.
type Sandbox struct {
	ID        string
	Attempt   uint32
	Ready     bool
	CreatedAt time.Time
	IPs       []string
}

// State is how far a container is.
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
	// Hash tells whether the container was made from the present definition.
	Hash uint64
	// LogPath is where its output is kept.
	LogPath string
	// Grace is how long it was to be given to end, when it was made.
	Grace time.Duration
	// PreStop is what it was to be told before its end, and Ports what it said of its ports, when it was made.
	PreStop *corev1.LifecycleHandler
	Ports   []corev1.ContainerPort
	// User is who runs it, where that is known.
	User *User
}

// User is who runs in a container.
type User struct {
	UID, GID int64
	Groups   []int64
}

// Sandbox is the newest sandbox, or nil.
func (p *Pod) Sandbox() *Sandbox {
	if len(p.Sandboxes) == 0 {
		return nil
	}
	return &p.Sandboxes[0]
}

// Container is the newest run of the container called name, or nil.
func (p *Pod) Container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// Previous is the run before the newest one, or nil.
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
