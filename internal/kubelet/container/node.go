package container

import (
	"context"
	"io"
	"time"

	"k8s.io/client-go/tools/remotecommand"
)

// The interfaces below are what a kubelet needs of a runtime besides running pods. They are separate so that a test
// implements only what it needs.

// Status reports the state of the runtime.
type Status interface {
	// Ready returns why the runtime does not work, and why it has no network for pods. Empty strings mean ready.
	Ready(ctx context.Context) (problem, network string)
	// Compared returns when Events last compared all containers.
	Compared() time.Time
}

// ImageStore lists and removes images.
type ImageStore interface {
	List(ctx context.Context) ([]Image, error)
	RemoveImage(ctx context.Context, id string) error
	// Usage returns the mount that holds the images, and how many bytes they take.
	Usage(ctx context.Context) (mount string, bytes uint64, err error)
	// User returns the user of an image: a number, or else a name.
	User(ctx context.Context, ref string) (uid *int64, name string, err error)
}

// StatsSource measures the resource usage of containers.
type StatsSource interface {
	// Usages returns the usage of the running containers, by their ID.
	Usages(ctx context.Context) (map[string]Usage, error)
}

// Streamer connects users with containers.
type Streamer interface {
	// Stream runs a command in a container, with its input and output connected. If the command fails, the error has
	// its exit status.
	Stream(ctx context.Context, id string, command []string, s Streams) error
	// Attach connects streams with a container's input and output.
	Attach(ctx context.Context, id string, s Streams) error
	// Forward connects a stream with a port of a sandbox.
	Forward(ctx context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error
	// ReopenLog makes the runtime write a container's log to a new file.
	ReopenLog(ctx context.Context, id string) error
}

// Image is an image in the runtime's store.
type Image struct {
	ID      string
	Names   []string
	Bytes   int64
	Pinned  bool
	Digests []string
}

// Usage is the resource usage of a container. Values that the runtime does not know are nil.
type Usage struct {
	ID                      string
	At                      time.Time
	CPU                     *uint64 // total CPU time in nanoseconds
	WorkingSet, Memory, RSS *uint64
	Disk, Inodes            *uint64
}

// Streams are the input and output of a command or a container. Nil streams are not connected.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	TTY      bool
	// Once closes the container's input when In ends. Otherwise the client is disconnected when In ends, and the
	// container keeps running.
	Once bool
	// Resize delivers the terminal's sizes. Nil means that there are none.
	Resize remotecommand.TerminalSizeQueue
}
