package pressure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is an eviction signal: a resource that a node can run short of.
type Signal string

// The signals, by the kubelet's names.
const (
	Memory      Signal = "memory.available"
	Disk        Signal = "nodefs.available"
	Inodes      Signal = "nodefs.inodesFree"
	ImageDisk   Signal = "imagefs.available"
	ImageInodes Signal = "imagefs.inodesFree"
	PIDs        Signal = "pid.available"
)

// Condition returns the node condition of a signal.
func (s Signal) Condition() corev1.NodeConditionType {
	switch s {
	case Memory:
		return corev1.NodeMemoryPressure
	case PIDs:
		return corev1.NodePIDPressure
	}
	return corev1.NodeDiskPressure
}

// Resource returns the resource whose usage decides which pod is evicted.
func (s Signal) Resource() string {
	switch s {
	case Memory:
		return "memory"
	case PIDs:
		return "pids"
	case Inodes, ImageInodes:
		return "inodes"
	}
	return "ephemeral-storage"
}

// Threshold is how much must be available: a quantity, or a fraction of the capacity.
type Threshold struct {
	Quantity resource.Quantity
	Part     float64
}

// Thresholds are a node's thresholds.
type Thresholds map[Signal]Threshold

// Default returns Kubernetes' default thresholds.
func Default() Thresholds {
	return Thresholds{
		Memory: {Quantity: resource.MustParse("100Mi")}, Disk: {Part: 0.10}, Inodes: {Part: 0.05}, ImageDisk: {Part: 0.15}, ImageInodes: {Part: 0.05},
	}
}

// Parse reads thresholds such as 100Mi and 10%, by signal. 0 and 100% mean no threshold.
func Parse(words map[string]string) (Thresholds, error) {
	known := []Signal{Memory, Disk, Inodes, ImageDisk, ImageInodes, PIDs}
	all := Thresholds{}
	for name, text := range words {
		signal := Signal(name)
		if !slices.Contains(known, signal) {
			return nil, fmt.Errorf("%q is none of %q", name, known)
		}
		if number, ok := strings.CutSuffix(text, "%"); ok {
			part, err := strconv.ParseFloat(number, 64)
			if err != nil || part < 0 || part > 100 {
				return nil, fmt.Errorf("%s: %q is no part of 100%%", name, text)
			}
			if part > 0 && part < 100 {
				all[signal] = Threshold{Part: part / 100}
			}
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is no amount", name, text)
		}
		if !q.IsZero() {
			all[signal] = Threshold{Quantity: q}
		}
	}
	return all, nil
}

// Words formats thresholds as Parse reads them.
func (t Thresholds) Words() map[string]string {
	words := map[string]string{}
	for signal, one := range t {
		words[string(signal)] = one.String()
	}
	return words
}

// String implements fmt.Stringer.
func (t Threshold) String() string {
	if t.Part > 0 {
		return strconv.FormatFloat(t.Part*100, 'g', 4, 64) + "%"
	}
	return t.Quantity.String()
}

// least returns how much of a capacity must be available.
func (t Threshold) least(capacity uint64) uint64 {
	if t.Part > 0 {
		return uint64(t.Part * float64(capacity))
	}
	return uint64(t.Quantity.Value())
}

// Level is the capacity of a resource and how much of it is available.
type Level struct{ Available, Capacity uint64 }
