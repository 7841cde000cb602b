package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// Etcd exports neither its open files nor the options with which it opens them. This file reads unexported fields;
// tests check it against the version of etcd in use.

// databaseOptions are the options with which etcd opens its databases.
//
//go:linkname databaseOptions go.etcd.io/etcd/server/v3/storage/backend.boltOpenOptions
var databaseOptions *bbolt.Options

// restoreChunkKeys is how many keys, with their values, wait between two stages of a start. Etcd's own number is
// 10,000: 60 MB of pods.
//
//go:linkname restoreChunkKeys go.etcd.io/etcd/server/v3/storage/mvcc.restoreChunkKeys
var restoreChunkKeys int

// setDatabaseOptions makes etcd open its databases through the variable databases, and read them in small steps.
var setDatabaseOptions = sync.OnceFunc(func() {
	databaseOptions.OpenFile = databases.open
	// Etcd's default flag would make all of a database of 600 MB resident at once: see dropPages.
	databaseOptions.MmapFlags = 0
	// By default etcd does not save the list of free pages and finds it at the next start by a walk through the whole
	// database: half of the time of a start with 600 MB. The list is short, and commits are rare here.
	databaseOptions.NoFreelistSync = false
	restoreChunkKeys = 256
})

// databases are the database files that etcd has opened in this process.
var databases openFiles

type openFiles struct {
	mu     sync.Mutex
	byPath map[string][]*os.File // guarded by mu
}

func (o *openFiles) open(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	readAhead(f)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byPath == nil {
		o.byPath = map[string][]*os.File{}
	}
	o.byPath[path] = append(o.byPath[path], f)
	return f, nil
}

// take closes and forgets all files of a path, including those in use.
func (o *openFiles) take(path string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, f := range o.byPath[path] {
		errs = append(errs, release(f))
	}
	delete(o.byPath, path)
	return errors.Join(errs...)
}

// forget records that etcd has closed the files of a path.
func (o *openFiles) forget(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byPath, path)
}

// database returns the open database of a server.
func database(s *etcdserver.EtcdServer) (*bbolt.DB, error) {
	v, err := private(reflect.ValueOf(s.Backend()).Elem(), "db")
	if err != nil {
		return nil, err
	}
	db, ok := v.Interface().(*bbolt.DB)
	if !ok {
		return nil, fmt.Errorf("etcd's database is a %v", v.Type())
	}
	return db, nil
}

// closeLog closes the log of a server that may hang.
func closeLog(s *etcdserver.EtcdServer) error {
	log, err := logOf(s)
	if err != nil {
		return err
	}
	closed := make(chan error, 1)
	go func() {
		_ = log.Close() // it stops at the first error, and leaves files open
		files, err := filesOf(log)
		for _, f := range files {
			if f != nil {
				err = errors.Join(err, release(f.File))
			}
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return errors.New("etcd's log does not close")
	}
}

// logOf returns the log of a server.
func logOf(s *etcdserver.EtcdServer) (*wal.WAL, error) {
	storage, err := private(reflect.ValueOf(s).Elem(), "r", "raftNodeConfig", "storage")
	if err != nil {
		return nil, err
	}
	log, err := private(storage.Elem().Elem(), "w")
	if err != nil {
		return nil, err
	}
	found, ok := log.Interface().(*wal.WAL)
	if !ok {
		return nil, fmt.Errorf("etcd's log is a %v", log.Type())
	}
	return found, nil
}

// filesOf returns the files of a log to which nothing writes any more.
func filesOf(log *wal.WAL) ([]*fileutil.LockedFile, error) {
	locks, err := private(reflect.ValueOf(log).Elem(), "locks")
	if err != nil {
		return nil, err
	}
	files, ok := locks.Interface().([]*fileutil.LockedFile)
	if !ok {
		return nil, fmt.Errorf("the files of etcd's log are %v", locks.Type())
	}
	return files, nil
}

// private follows unexported fields of addressable structs.
func private(v reflect.Value, names ...string) (reflect.Value, error) {
	for _, name := range names {
		if v = v.FieldByName(name); !v.IsValid() {
			return v, fmt.Errorf("this version of etcd has no field %q", name)
		}
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem(), nil
}

// databaseFile is the database file. Etcd also locks it while it runs.
func databaseFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
