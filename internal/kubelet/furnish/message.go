package furnish

import (
	"context"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/logs"
)

const (
	longestMessage = 4096
	longestTail    = 2048
	tailLines      = 80
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

func beginning(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, longestMessage))
	return string(text)
}
