// Package etcdtest runs a real etcd of one member in the process of a test. Only tests import it: no etcd server is part
// of the program.
package etcdtest

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Options are those of Run and Start. The zero value works.
type Options struct {
	// Dir is the data directory. Start makes one that ends with the test if it is empty.
	Dir string
	// Safe waits for the disk with each write, as etcd usually does. Without it only the machine must not fail.
	Safe bool
	// Change changes the configuration further.
	Change func(*embed.Config)
}

// Server is an etcd that listens on a port of the loopback interface, always the same one.
type Server struct {
	// URL is its address.
	URL     string
	options Options
	running *embed.Etcd
}

// Run starts an etcd. It is ready when Run returns. The caller must stop it.
func Run(o Options) (*Server, error) {
	s := &Server{URL: "http://127.0.0.1:0", options: o}
	return s, s.run()
}

// Start starts an etcd that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) run() error {
	client, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c := embed.NewConfig()
	c.Dir = s.options.Dir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = 10, 50
	c.UnsafeNoFsync = !s.options.Safe
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if s.options.Change != nil {
		s.options.Change(c)
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	<-e.Server.ReadyNotify()
	s.URL = fmt.Sprint("http://", e.Clients[0].Addr())
	s.running = e
	return nil
}

// Stop stops the server, if it runs, as a crash does: watches are not waited for.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Server.HardStop()
		s.running.Close()
		s.running = nil
	}
}

// Restart starts a server that was stopped, with the same address and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Do runs a transaction, and returns its revision.
func (s *Server) Do(ctx context.Context, ops ...*pb.RequestOp) (revision int64, err error) {
	r, err := s.running.Server.Txn(ctx, &pb.TxnRequest{Success: ops})
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// Etcd returns the running server.
func (s *Server) Etcd() *embed.Etcd { return s.running }

// Put returns the operation that writes a key.
func Put(key, value string) *pb.RequestOp { return PutLeased(key, value, 0) }

// PutLeased returns the operation that writes a key with a lease.
func PutLeased(key, value string, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease}}}
}

// Delete returns the operation that deletes a key.
func Delete(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}
