package datadir

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
)

// servedDir is set in the process that runs an etcd until it is killed.
const servedDir = "MILLRACE_TEST_ETCD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(servedDir); dir != "" {
		fmt.Println("ended:", writeUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled prints each key that was written, with its revision. Most are in the log only: the database is
// committed rarely, as that of the embedded etcd was.
func writeUntilKilled(dir string) error {
	s, err := etcdtest.Run(etcdtest.Options{Dir: dir, Safe: true, Change: func(c *embed.Config) { c.BackendBatchInterval = 2 * time.Second }})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		key := fmt.Sprintf("/registry/configmaps/default/%d", n%200)
		ops := []string{key}
		if n%7 == 0 {
			ops = append(ops, fmt.Sprintf("/registry/together/%d", n))
		}
		rev, err := s.Do(context.Background(), puts(ops, n)...)
		if err != nil {
			return err
		}
		fmt.Println("wrote", key, n, rev)
	}
}

// killed makes the database of an etcd that was killed in the middle of writes, and returns its acknowledged keys with
// their values and revisions. The newest write may be a later one.
func killed(t *testing.T, data string) (acknowledged map[string]store.Entry, newest store.Revision) {
	t.Helper()
	acknowledged = map[string]store.Entry{}
	for _, line := range etcdtest.KillAfter(t, 1500, func(int) {}, servedDir+"="+Database(data)) {
		var e store.Entry
		var n int
		if _, err := fmt.Sscanf(line, "wrote %s %d %d", &e.Key, &n, &e.Revision); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e.Value = []byte(fmt.Sprint("value ", n))
		acknowledged[e.Key], newest = e, e.Revision
	}
	return acknowledged, newest
}

// entries returns what the log in a data directory has.
func entries(t *testing.T, data string) (map[string]store.Entry, store.Revision) {
	t.Helper()
	s, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.List(t.Context(), "/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]store.Entry{}
	for _, e := range page.Entries {
		all[e.Key] = e
	}
	return all, page.Revision
}

func TestWhatAKilledEtcdHasAcknowledgedIsTakenOverWithItsRevisions(t *testing.T) {
	data := t.TempDir()
	acknowledged, newest := killed(t, data)
	var said bytes.Buffer
	if err := TakeOver(t.Context(), data, 0, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "this cluster's objects are in a log now") {
		t.Errorf("it says %q", said.String())
	}
	got, revision := entries(t, data)
	if revision < newest || revision > newest+1 {
		t.Errorf("its revision is %d, and %d was acknowledged", revision, newest)
	}
	for key, want := range acknowledged {
		// The write that was under way when it was killed may be there or not.
		if e := got[key]; (e.Revision != want.Revision || string(e.Value) != string(want.Value)) && e.Revision <= newest {
			t.Errorf("%s: there is %q at %d, and %q was acknowledged at %d", key, e.Value, e.Revision, want.Value, want.Revision)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "etcd.taken-over", "member", "snap", "db")); err != nil {
		t.Errorf("the old database is not kept: %v", err)
	}
	if err := TakeOver(t.Context(), data, 0, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// filled makes a data directory with the database of an etcd.
func filled(t *testing.T) (data string) {
	t.Helper()
	data = t.TempDir()
	write(t, data, "/registry/pods/default/a", "/registry/pods/default/b", "/registry/events/default/c")
	return data
}

// write writes keys into the database.
func write(t *testing.T, data string, keys ...string) {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{Dir: Database(data)})
	defer s.Stop()
	for n, key := range keys {
		if _, err := s.Do(t.Context(), puts([]string{key}, n)...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATakeoverThatLacksItsLastStepIsCompleted(t *testing.T) {
	data := filled(t)
	for range 2 {
		if err := TakeOver(t.Context(), data, 0, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if all, revision := entries(t, data); len(all) != 3 || revision != 4 || all["/registry/pods/default/b"].Revision != 3 {
			t.Errorf("at %d there is %v", revision, slices.Collect(maps.Values(all)))
		}
		if err := os.Rename(Database(data)+".taken-over", Database(data)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, data, "/registry/later")
	if err := TakeOver(t.Context(), data, 0, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "it was written to after the log") {
		t.Errorf("a database with changes that the log lacks: %v", err)
	}
}

func TestADatabaseBesideOneThatWasTakenOverIsRefused(t *testing.T) {
	data := filled(t)
	if err := TakeOver(t.Context(), data, 0, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	write(t, data, "/registry/other")
	if err := TakeOver(t.Context(), data, 0, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "there are others in "+Database(data)) {
		t.Errorf("the error is %v", err)
	}
}

func TestATakeoverThatFailsLeavesEverythingAsItWas(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(t *testing.T, data string)
		ctx   func() context.Context
		want  string
	}{
		"a damaged database": {spoil: func(t *testing.T, data string) {
			f, err := os.OpenFile(filepath.Join(Database(data), "member", "snap", "db"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(bytes.Repeat([]byte("damaged "), 1024), 0); err != nil {
				t.Fatal(err)
			}
		}, want: "neither of its two heads is whole"},
		"an etcd that runs": {spoil: func(t *testing.T, data string) {
			etcdtest.Start(t, etcdtest.Options{Dir: Database(data)})
		}, want: "an etcd, or another process, uses it"},
		"a start that ends": {ctx: func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, want: "context canceled"},
	} {
		data := filled(t)
		ctx := t.Context()
		if c.spoil != nil {
			c.spoil(t, data)
		}
		if c.ctx != nil {
			ctx = c.ctx()
		}
		if err := TakeOver(ctx, data, 0, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(Database(data)); err != nil {
			t.Errorf("%s: the database is gone: %v", what, err)
		}
		if _, err := Open(data); err == nil {
			t.Errorf("%s: there is a log", what)
		}
	}
}

func TestEventsLiveAsLongAsSaid(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: time.Minute, -1: 0} {
		life := Life(given)
		if got := life("/registry/events/default/e"); max(got, 0) != want {
			t.Errorf("given %v, events live %v", given, got)
		}
		if got := life("/registry/pods/default/p"); got != 0 {
			t.Errorf("pods live %v", got)
		}
	}
}

// puts writes the same value under each key.
func puts(keys []string, n int) (ops []*pb.RequestOp) {
	for _, key := range keys {
		ops = append(ops, etcdtest.Put(key, fmt.Sprint("value ", n)))
	}
	return ops
}
