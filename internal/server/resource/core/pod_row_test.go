package core

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsTellTheirStateInOneWord(t *testing.T) {
	for name, c := range map[string]struct {
		pod             string
		ready, state, n string
	}{
		"new":         {`{"spec": {"containers": [{}, {}]}, "status": {"phase": "Pending"}}`, "0/2", "Pending", "0"},
		"gated":       {`{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}`, "0/0", "SchedulingGated", "0"},
		"evicted":     {`{"status": {"phase": "Failed", "reason": "Evicted"}}`, "0/0", "Evicted", "0"},
		"initialized": {`{"spec": {"initContainers": [{"name": "a"}, {"name": "b"}], "containers": [{}]}, "status": {"phase": "Pending", "initContainerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}]}}`, "0/1", "Init:1/2", "0"},
		"init failed": {`{"spec": {"initContainers": [{"name": "a"}], "containers": [{}]}, "status": {"phase": "Pending", "initContainerStatuses": [{"name": "a", "restartCount": 2, "state": {"terminated": {"exitCode": 3}}}]}}`, "0/1", "Init:ExitCode:3", "2"},
		"init pulls":  {`{"spec": {"initContainers": [{"name": "a"}], "containers": [{}]}, "status": {"phase": "Pending", "initContainerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ErrImagePull"}}}]}}`, "0/1", "Init:ErrImagePull", "0"},
		"sidecar":     {`{"spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{}]}, "status": {"phase": "Running", "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "state": {"running": {}}}], "containerStatuses": [{"ready": true, "state": {"running": {}}}]}}`, "2/2", "Running", "0"},
		"crashing":    {`{"spec": {"containers": [{}]}, "status": {"phase": "Running", "containerStatuses": [{"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}`, "0/1", "CrashLoopBackOff", "4"},
		"completed":   {`{"spec": {"containers": [{}]}, "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}}`, "0/1", "Completed", "0"},
		"half done":   {`{"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}, {"ready": true, "state": {"running": {}}}]}}`, "1/2", "NotReady", "0"},
		"signalled":   {`{"spec": {"containers": [{}]}, "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}}`, "0/1", "Signal:9", "0"},
		"ending":      {`{"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "spec": {"containers": [{}]}, "status": {"phase": "Running"}}`, "0/1", "Terminating", "0"},
		"ended":       {`{"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"phase": "Succeeded"}}`, "0/0", "Succeeded", "0"},
		"node lost":   {`{"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"phase": "Running", "reason": "NodeLost"}}`, "0/0", "Unknown", "0"},
	} {
		p := &corev1.Pod{}
		if err := json.Unmarshal([]byte(c.pod), p); err != nil {
			t.Fatal(err)
		}
		row := podRow(p)
		if row.Cells[1] != c.ready || row.Cells[2] != c.state || row.Cells[3] != c.n {
			t.Errorf("%s: %v, want %s %s %s", name, row.Cells[1:4], c.ready, c.state, c.n)
		}
		if ended := podEnded(p); ended != (len(row.Conditions) == 1) {
			t.Errorf("%s: conditions %v", name, row.Conditions)
		}
	}
}

func TestRestartsTellTheLast(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		RestartCount:         3,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Add(-5*time.Hour - time.Minute))}},
	}}}}
	if got := podRow(p).Cells[3]; got != "3 (5h1m ago)" {
		t.Errorf("got %q", got)
	}
}
