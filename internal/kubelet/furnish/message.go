package furnish

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/logs"
	"github.com/millrace/millrace/internal/kubelet/stats"
)

const (
	longestMessage = 4096
	// longestFile is how long files that the kubelet makes for a pod may become: containers can write to them.
	longestFile = 1 << 20
	longestTail = 2048
	tailLines   = 80
)

// Message returns a container's termination message: its file, or the end of its log if the policy says so.
func (f *Furnisher) Message(pod *corev1.Pod, c *corev1.Container, run *container.Container) string {
	text := beginning(f.messagePath(string(pod.UID), c.Name, run.Attempt))
	if text != "" || run.ExitCode == 0 || c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || run.LogPath == "" {
		return text
	}
	tail := int64(tailLines)
	limit := int64(longestTail)
	var b strings.Builder
	if err := logs.Read(context.Background(), run.LogPath, logs.Options{Tail: &tail}, &b); err != nil {
		return ""
	}
	text = b.String()
	return text[max(0, len(text)-int(limit)):]
}

// written returns the files of a pod that the kubelet makes, that containers write to, and that are in no volume:
// /etc/hosts and termination messages.
func (f *Furnisher) written(uid string) []string {
	files, _ := filepath.Glob(filepath.Join(f.podDirectory(uid), "containers", "*", "*")) // the pattern is good
	return append(files, f.hostsPath(uid))
}

// Written returns how many bytes a pod has written to files outside of its volumes.
func (f *Furnisher) Written(uid string) (bytes int64) {
	for _, path := range f.written(uid) {
		if fs := stats.Directory(path); fs != nil {
			bytes += int64(*fs.Used)
		}
	}
	return bytes
}

// Bound cuts files that a pod has made very long, so that no container fills the disk with them. Of a termination
// message nobody reads so much.
func (f *Furnisher) Bound(uid string) error {
	var failed error
	for _, path := range f.written(uid) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > longestFile {
			failed = errors.Join(failed, os.Truncate(path, longestFile))
		}
	}
	return failed
}

func beginning(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, longestMessage))
	return string(text)
}
