package stats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRatesAreKnownFromTheSecondSampleOn(t *testing.T) {
	var r Rates
	at := time.Unix(1000, 0)
	if c := r.CPU("a", at, 5e9); c.NanoCores != nil || c.Total != 5e9 {
		t.Errorf("at first it is %+v", c)
	}
	if c := r.CPU("a", at.Add(10*time.Second), 6e9); c.NanoCores == nil || *c.NanoCores != 1e8 {
		t.Errorf("a second of ten is %+v", c)
	}
	if c := r.CPU("a", at.Add(10*time.Second+time.Millisecond), 6e9); c.NanoCores == nil || *c.NanoCores != 1e8 {
		t.Errorf("who asks again at once hears %+v", c)
	}
	if c := r.CPU("a", at.Add(20*time.Second), 1); c.NanoCores != nil {
		t.Errorf("after a new start it is %+v", c)
	}
	r.Keep(func(string) bool { return false })
	if len(r.seen) > 0 {
		t.Error("what is gone is remembered")
	}
}

func TestHolesInFilesUseNoDiskSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	if fs := Directory(filepath.Dir(path)); fs == nil || *fs.Used == 0 || *fs.Used > 1<<20 {
		t.Errorf("a file with a hole takes %+v", fs)
	}
}

func TestASummaryIsWrittenAsMetrics(t *testing.T) {
	rss := uint64(3)
	s := Summary{Node: Node{Name: "n", Memory: &Memory{WorkingSet: 9}}, Pods: []Pod{{
		Ref: Reference{Name: "p", Namespace: "ns"},
		Containers: []Container{
			{Name: "a", StartTime: metav1.Unix(7, 0), CPU: &CPU{Time: metav1.Unix(8, 0), Total: 15e8}, Memory: &Memory{Time: metav1.Unix(8, 0), WorkingSet: 4, RSS: &rss}},
			{Name: "b", CPU: &CPU{Time: metav1.Unix(8, 0), Total: 5e8}},
		},
	}}}
	s.Pods[0].Sum()
	var b strings.Builder
	if err := s.WriteResources(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`container_cpu_usage_seconds_total{container="a",namespace="ns",pod="p"} 1.5 8000`, `pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 2 8000`,
		`container_memory_working_set_bytes{container="a",namespace="ns",pod="p"} 4 8000`, "node_memory_working_set_bytes 9", "resource_scrape_error 0",
		`container_start_time_seconds{container="a",namespace="ns",pod="p"} 7`,
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), `container_memory_working_set_bytes{container="b"`) || strings.Contains(b.String(), "node_cpu_usage_seconds_total ") && strings.Contains(b.String(), "\nnode_cpu_usage_seconds_total 0") {
		t.Errorf("what is not known is told:\n%s", b.String())
	}
}

func TestADirectoryIsMeasured(t *testing.T) {
	directory := t.TempDir()
	if err := os.MkdirAll(filepath.Join(directory, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "below", "file"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := Directory(directory); f == nil || *f.Used < 1000 || *f.Used > 1<<20 || *f.InodesUsed != 3 {
		t.Errorf("it is %+v", f)
	}
	if f := Directory(filepath.Join(directory, "none")); f != nil {
		t.Errorf("what is not there is %+v", f)
	}
}
