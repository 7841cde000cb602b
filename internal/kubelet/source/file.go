package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
)

// FileOptions configure Files.
type FileOptions struct {
	// Path is a file, or a directory whose files are read. Names that begin with a dot are skipped.
	Path string
	Node string
	// Every is how often all files are read even if no change was reported: 20 s by default.
	Every  time.Duration
	Logger *slog.Logger
}

// Files reads manifests on disk. It is a loop.Runner.
type Files struct {
	FileOptions
	push func([]*corev1.Pod)
	// good has the pods of each file when it was last valid. A half-written file keeps its pods.
	good map[string][]*corev1.Pod
}

// settle is the delay after a change before a directory is read, so that a file that is being written is read once.
const settle = 50 * time.Millisecond

// NewFiles returns a source that passes its pods to push.
func NewFiles(o FileOptions, push func([]*corev1.Pod)) *Files {
	o.Every = cmp.Or(o.Every, 20*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Files{FileOptions: o, push: push, good: map[string][]*corev1.Pod{}}
}

// Run reads the manifests until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	changes, stop := f.watch()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
			timer.Reset(settle)
		case <-timer.C:
			f.read()
			timer.Reset(f.Every)
		}
	}
}

// watch returns the file system's events, where there are any.
func (f *Files) watch() (<-chan fsnotify.Event, func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		f.Logger.Warn("manifests cannot be watched; polling them", "path", f.Path, "err", err)
		return nil, func() {}
	}
	watched := f.Path
	if info, err := os.Stat(f.Path); err == nil && !info.IsDir() {
		watched = filepath.Dir(f.Path) // editors replace files, and a watch of the file would stay with the old one
	}
	if err := w.Add(watched); err != nil {
		f.Logger.Warn("manifests cannot be watched; polling them", "path", f.Path, "err", err)
	}
	return w.Events, func() { w.Close() }
}

func (f *Files) read() {
	paths, err := f.paths()
	if err != nil {
		f.Logger.Error("manifests cannot be read", "path", f.Path, "err", err)
		return
	}
	for path := range f.good {
		if !slices.Contains(paths, path) {
			delete(f.good, path)
		}
	}
	var all []*corev1.Pod
	for _, path := range paths {
		pods, err := f.one(path)
		if err != nil {
			f.Logger.Error("invalid manifest skipped", "path", path, "err", err)
		} else {
			f.good[path] = pods
		}
		all = append(all, f.good[path]...)
	}
	f.push(all)
}

// paths returns the existing files. An empty result is certain only without an error.
func (f *Files) paths() ([]string, error) {
	info, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{f.Path}, nil
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(f.Path, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

func (f *Files) one(path string) ([]*corev1.Pod, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pods, err := decode(text)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if err := adopt(pod, File, path, f.Node, time.Now()); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	return pods, nil
}
