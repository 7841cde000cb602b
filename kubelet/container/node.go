package container

import (
	"context"
	"io"
	"time"

	"k8s.io/client-go/tools/remotecommand"
)

// What a kubelet asks of a runtime beside running pods. Each is declared apart, so that a test pretends no more than it needs.

// Status says how a runtime is.
type Status interface {
	// Ready says what keeps the runtime from working, and what keeps it from giving pods a network. Nothing means ready.
	Ready(ctx context.Context) (problem, network string)
	// Compared is when Events last saw all that runs.
	Compared() time.Time
}

// Keeper keeps images and the disk that they take.
type Keeper interface {
	List(ctx context.Context) ([]Image, error)
	RemoveImage(ctx context.Context, id string) error
	// Usage says how many bytes the images take, and on which mount.
	Usage(ctx context.Context) (mount string, bytes uint64, err error)
	// User says who runs an image: a number, or else a name.
	User(ctx context.Context, ref string) (uid *int64, name string, err error)
}

// Meter says what containers use.
type Meter interface {
	// Usages are what the containers use that run, by their id.
	Usages(ctx context.Context) (map[string]Usage, error)
}

// Streamer connects users with containers.
type Streamer interface {
	// Stream runs a command in a container, connected with streams. A command that fails is an error with an exit status.
	Stream(ctx context.Context, id string, command []string, s Streams) error
	// Attach connects streams with a container's own.
	Attach(ctx context.Context, id string, s Streams) error
	// Forward connects a stream with a port inside a sandbox.
	Forward(ctx context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error
	// ReopenLog lets a container write its log to a new file.
	ReopenLog(ctx context.Context, id string) error
}

// Image is an image that a runtime keeps.
type Image struct {
	ID      string
	Names   []string
	Bytes   int64
	Pinned  bool
	Digests []string
}

// Usage is what a container uses. Figures are nil where the runtime does not know them.
type Usage struct {
	ID                      string
	At                      time.Time
	CPU                     *uint64 // nanoseconds of processor time so far
	WorkingSet, Memory, RSS *uint64
	Disk, Inodes            *uint64
}

// Streams are those of a command or a container. Absent ones are not connected.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	TTY      bool
	// Once: the container's input ends with In. Otherwise who is attached is cut off when In ends, and the container goes on.
	Once bool
	// Resize tells of a terminal's sizes. Nil means that there are none.
	Resize remotecommand.TerminalSizeQueue
}
