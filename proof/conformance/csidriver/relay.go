//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"sync"
)

// listenUnix listens on a socket whose path may have a scheme. A socket that is left from before is replaced.
func listenUnix(endpoint string) (net.Listener, error) {
	if u, err := url.Parse(endpoint); err == nil && u.Scheme == "unix" {
		endpoint = u.Path
	}
	if err := os.Remove(endpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", endpoint)
}

// relay connects each client of a socket with one connection from whoever connects to a port. That may have been there
// before the client.
func relay(ctx context.Context, endpoint, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	clients, err := listenUnix(endpoint)
	if err != nil {
		return err
	}
	servers, err := net.Listen("tcp", u.Host)
	if err != nil {
		return errors.Join(err, clients.Close())
	}
	stop := context.AfterFunc(ctx, func() { clients.Close(); servers.Close() })
	defer stop()
	for {
		client, err := clients.Accept()
		if err != nil {
			return stopped(ctx, err)
		}
		server, err := servers.Accept()
		if err != nil {
			return stopped(ctx, errors.Join(err, client.Close()))
		}
		go join(client, server)
	}
}

// stopped is an error, unless the reason for it is the end of ctx.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// join copies between two connections until both directions have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	copyTo := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { copyTo(a, b) })
	both.Go(func() { copyTo(b, a) })
	both.Wait()
}
