package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"github.com/millrace/millrace/internal/server/store"
)

// EmbedOptions says where the embedded etcd keeps its data. Only Dir is required.
type EmbedOptions struct {
	// Dir is the data directory, in etcd's own layout. It is created if it does not exist.
	Dir string
	// QuotaBytes is the largest size of the database; beyond it writes fail with store.ErrNoSpace. Zero means 8 GiB.
	QuotaBytes int64
	// ReserveBytes is how much of the disk stays free. Below it writes fail with store.ErrNoSpace, before etcd meets a
	// full disk and has to be restarted. Zero means 96 MiB, which is enough for two segments of the log and one growth
	// of the database. A negative value turns the check off.
	ReserveBytes int64
	// MaxRequestBytes is the largest write; zero means 1.5 MiB, etcd's default.
	MaxRequestBytes uint
	// Logger receives etcd's warnings and errors. Nil discards them.
	Logger *slog.Logger
}

// The member's address is written into a new data directory, but nothing listens there. It is etcd's default, so that
// etcd itself can be started on the directory.
const (
	memberName = "default"
	peerURL    = "http://127.0.0.1:2380"
)

// At each start etcd reads the segment of the log with the last snapshot twice, and it allocates two segments in
// advance. With etcd's default of 64 MB a start takes 0.5 s of CPU after some use, and an empty directory takes 128 MB.
// The size is a global variable of etcd, so it is set only when a process first embeds an etcd.
var useSmallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = 16 << 20 })

// Embed starts an etcd inside this process; it is ready for use when Embed returns. Embed fails if another process, or
// another store of this process, uses the directory.
func Embed(ctx context.Context, o EmbedOptions) (*Store, error) {
	useSmallSegments()
	o.QuotaBytes = cmp.Or(o.QuotaBytes, 8<<30)
	o.ReserveBytes = cmp.Or(o.ReserveBytes, 96<<20)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 3<<19)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDirectory(o.Dir)
	if err != nil {
		return nil, err
	}
	m, err := startMember(ctx, o)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory %s: %w", o.Dir, err)
	}
	e := &embedded{options: o, lock: lock, closing: make(chan struct{}), full: make(chan struct{}, 1), commits: make(chan struct{}, 1), present: m}
	e.checkDisk()
	s := newStore(e, "", o.Logger, e.newest)
	s.background.Go(e.tend)
	return s, nil
}

func startMember(ctx context.Context, o EmbedOptions) (*member, error) {
	setDatabaseOptions()
	m := newMember(o.Logger)
	cfg, err := serverConfig(o, newZap(&bridge{log: o.Logger, quiet: &m.quiet}, m.fail))
	if err != nil {
		return nil, err
	}
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// If the directory is damaged, etcd ends the goroutine that starts it, after a call of fail.
	type outcome struct {
		server *etcdserver.EtcdServer
		err    error
	}
	made := make(chan outcome, 1)
	go func() {
		server, err := etcdserver.NewServer(cfg)
		made <- outcome{server, err}
	}()
	select {
	case got := <-made:
		if got.err != nil {
			return nil, got.err
		}
		m.server = got.server
	case <-m.broken:
		return nil, m.cause
	}
	m.server.Start()
	if err := m.lead(ctx); err != nil {
		return nil, errors.Join(err, m.shut())
	}
	if n := len(m.server.Cluster().Members()); n != 1 {
		return nil, errors.Join(fmt.Errorf("belongs to an etcd cluster of %d members", n), m.shut())
	}
	m.kv = m.server.KV()
	m.dropPages() // the start has read all of them
	return m, nil
}

// serverConfig configures etcd as a cluster of one member that only this process calls.
func serverConfig(o EmbedOptions, log *zap.Logger) (config.ServerConfig, error) {
	peers, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return config.ServerConfig{}, err
	}
	cfg := config.ServerConfig{
		Name:                memberName,
		DataDir:             o.Dir,
		PeerURLs:            peers,
		InitialPeerURLsMap:  types.URLsMap{memberName: peers},
		InitialClusterToken: rand.Text(), // the member's ID is derived from it
		NewCluster:          true,
		Logger:              log,
		ServerFeatureGate:   features.NewDefaultServerFeatureGate(memberName, log),
		BcryptCost:          uint(bcrypt.DefaultCost),
		// A single member has no use for heartbeats, so ticks are rare. Elections do not depend on them either: see
		// lead.
		TickMs:        100,
		ElectionTicks: 2,
		// There are no followers that need old entries, so none are kept in memory. The next start reads again, into
		// memory, what was written since the last snapshot. A snapshot costs two writes of a few kilobytes, because the
		// database is not part of it.
		SnapshotCount:          1000,
		SnapshotCatchUpEntries: 16,
		MaxSnapFiles:           1,
		MaxWALFiles:            2,
		QuotaBackendBytes:      o.QuotaBytes,
		BackendFreelistType:    bbolt.FreelistMapType,
		MaxRequestBytes:        o.MaxRequestBytes,
		MaxTxnOps:              128,
		BackendBatchInterval:   commitEvery,
		BackendBatchLimit:      commitWrites,
		// Warnings about slow requests are not wanted here; a limit of zero would log every request.
		WarningApplyDuration:        math.MaxInt64,
		WarningUnaryRequestDuration: math.MaxInt64,
	}
	return cfg, nil
}

var errBroken = fmt.Errorf("etcd has stopped: %w", store.ErrUnavailable)
