package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace/millrace/server/store"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// member is one life of the embedded etcd: from its start until it is stopped or gives up.
//
// Etcd gives up by ending its process: when it can't write to its disk, above all. Here only the goroutine ends that met
// the trouble, with whatever locks it holds, so that calls of the member may hang from then on. Nobody waits for them.
type member struct {
	log    *slog.Logger
	server *etcdserver.EtcdServer
	kv     mvcc.WatchableKV

	// quiet drops what etcd has to say while it is being stopped.
	quiet atomic.Bool

	// broken is closed when etcd has given up; cause says why.
	breaking sync.Once
	broken   <-chan struct{}
	cause    error
	life     context.Context // its end is what broken is
	end      context.CancelFunc

	mu       sync.Mutex // guards stopped, and visitors against a Wait
	stopped  bool
	visitors sync.WaitGroup // those who are inside kv, which must not be closed under their feet
}

func newMember(log *slog.Logger) *member {
	m := &member{log: log}
	m.life, m.end = context.WithCancel(context.Background())
	m.broken = m.life.Done()
	return m
}

// releaseTime is how long a member that has given up may take to let go of what it holds.
const releaseTime = 2 * time.Second

// fail notes that etcd has given up.
func (m *member) fail(err error) {
	m.breaking.Do(func() {
		m.cause = fmt.Errorf("%w: %w", errBroken, err)
		if errors.Is(err, syscall.ENOSPC) {
			m.cause = fmt.Errorf("etcd has stopped: %w: %w", store.ErrNoSpace, err)
		}
		m.log.Error("etcd has stopped and is being started again", "err", err)
		m.quiet.Store(true)
		m.end()
	})
}

// dropPages lets go of the pages of the database that were looked at.
func (m *member) dropPages() {
	db, err := database(m.server)
	if err == nil {
		err = dropPages(db)
	}
	if err != nil {
		m.log.Debug("pages of the database stay resident", "err", err)
	}
}

// alive tells why the member can't be asked.
func (m *member) alive() error {
	select {
	case <-m.broken:
		return m.cause
	default:
		return nil
	}
}

// enter lets a caller in, who calls leave.
func (m *member) enter() error {
	if err := m.alive(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return store.ErrClosed
	}
	m.visitors.Add(1)
	return nil
}

func (m *member) leave() { m.visitors.Done() }

// bound makes a context end with the member.
func (m *member) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// shut ends the member when nobody is inside any more. One that has given up may never end; it is left behind.
func (m *member) shut() error {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	m.quiet.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.visitors.Wait()
		if m.server != nil {
			m.server.HardStop()
		}
	}()
	select {
	case <-done:
		return nil
	case <-m.broken:
	}
	late := time.NewTimer(releaseTime)
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-late.C:
		return m.cause
	}
}
