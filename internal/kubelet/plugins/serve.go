package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
)

// Serve answers at a socket until ctx ends. Files at its path are replaced, and its directory is made. A socket that
// somebody removes is made again.
func Serve(ctx context.Context, socket string, register func(grpc.ServiceRegistrar)) error {
	listener, err := listen(ctx, socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	register(server)
	served := make(chan error)
	serve := func(l net.Listener) { go func() { served <- server.Serve(l) }() }
	serve(listener)
	running := 1
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for running > 0 {
		select {
		case <-ctx.Done():
			server.Stop() // closes the listeners
			for ; running > 0; running-- {
				<-served
			}
			if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		case <-tick.C:
			if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			again, err := listen(ctx, socket)
			if err != nil {
				continue // the next tick tries again
			}
			serve(again)
			running++
			_ = listener.Close() // nobody can reach it any more
			listener = again
		case err := <-served:
			if running--; running == 0 {
				return fmt.Errorf("serve %s: %w", socket, err)
			}
		}
	}
	return nil
}

// listen opens a socket. The file stays when the listener is closed: it may be that of a later listener by then.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, nil
}

// Answers reports whether a process serves a socket.
func Answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
