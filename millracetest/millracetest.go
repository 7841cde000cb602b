// Package millracetest gives a Go test a cluster of its own: a real API server, real control loops and, if wanted,
// hollow nodes, in memory, within milliseconds.
//
//	func TestOperator(t *testing.T) {
//		cluster := millracetest.Start(t, millrace.Options{Nodes: 3})
//		kube := millracetest.Clientset(t, cluster)
//		…
//	}
//
// The cluster ends with the test, and nothing of it is left.
//
// With [millrace.Options.Listen] set to "none" a cluster opens no port and keeps everything in memory, so that it can
// be started inside a bubble of testing/synctest: all its goroutines live there, minutes pass in no time, and
// synctest.Wait returns when all that could happen has happened. [API] is such a cluster, with nothing but the API
// server. Faults are put between a client and the server by the round tripper of the client's configuration
// (rest.Config.Wrap).
//
// What a test needs around its cluster:
//
//   - [Wait] waits until an object is as it should be, and otherwise says what was seen of it, in order, and who wrote
//     it.
//   - If a test fails, the last requests that were to change something are printed: when, what, by whom, and with which
//     answer.
//   - [User] is a client of somebody to whom the roles of the cluster apply.
//   - [Golden] compares objects with a file, without what differs from run to run.
//   - [NoLeaks] tells goroutines that outlive the test.
package millracetest

import (
	"log/slog"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// Start starts a cluster that ends with the test. Without a logger of its own it reports warnings to the test's log. If
// the test fails, it prints the last requests that were to change something, unless there is an audit log already.
func Start(t testing.TB, o millrace.Options) *millrace.Cluster {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	var all *changes
	if _, measured := t.(*testing.B); !measured && o.Audit.Events == nil && o.Audit.PolicyFile == "" {
		all = &changes{}
		o.Audit.Events = all.add
	}
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
		if all != nil {
			all.report(t)
		}
	})
	return c
}

// API starts a cluster that is nothing but its API server, without a port, for tests of loops in virtual time. It
// returns how to reach it.
func API(t testing.TB) *rest.Config {
	t.Helper()
	return Start(t, millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true}).Config()
}

// Clientset is a typed client of the cluster.
func Clientset(t testing.TB, c *millrace.Cluster) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return k
}

// User is a typed client of a user of some groups, to whom the roles of the cluster apply.
func User(t testing.TB, c *millrace.Cluster, name string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	config, err := c.User(name, groups...)
	if err != nil {
		t.Fatalf("make a user: %v", err)
	}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return k
}
