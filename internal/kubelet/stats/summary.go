package stats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Summary is the usage of a node and its pods, in the format of the kubelet's /stats/summary.
type Summary struct {
	Node Node  `json:"node"`
	Pods []Pod `json:"pods"`
}

// Node is the usage of a node.
type Node struct {
	Name      string      `json:"nodeName"`
	StartTime metav1.Time `json:"startTime"`
	CPU       *CPU        `json:"cpu,omitempty"`
	Memory    *Memory     `json:"memory,omitempty"`
	FS        *FS         `json:"fs,omitempty"`
	Runtime   *Runtime    `json:"runtime,omitempty"`
	Processes *Processes  `json:"rlimit,omitempty"`
}

// Runtime is the disk usage of images.
type Runtime struct {
	ImageFS *FS `json:"imageFs,omitempty"`
}

// Processes is the number of processes and its limit.
type Processes struct {
	Time    metav1.Time `json:"time"`
	Most    int64       `json:"maxpid"`
	Current int64       `json:"curproc"`
}

// Pod is the usage of a pod.
type Pod struct {
	Ref        Reference   `json:"podRef"`
	StartTime  metav1.Time `json:"startTime"`
	Containers []Container `json:"containers"`
	CPU        *CPU        `json:"cpu,omitempty"`
	Memory     *Memory     `json:"memory,omitempty"`
	Volumes    []Volume    `json:"volume,omitempty"`
	Ephemeral  *FS         `json:"ephemeral-storage,omitempty"`
}

// Reference identifies a pod.
type Reference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// Container is the usage of a container.
type Container struct {
	Name      string      `json:"name"`
	StartTime metav1.Time `json:"startTime"`
	CPU       *CPU        `json:"cpu,omitempty"`
	Memory    *Memory     `json:"memory,omitempty"`
	RootFS    *FS         `json:"rootfs,omitempty"`
	Logs      *FS         `json:"logs,omitempty"`
}

// Volume is the usage of a volume.
type Volume struct {
	Name string `json:"name"`
	FS
	Claim *ClaimReference `json:"pvcRef,omitempty"`
}

// ClaimReference identifies a claim.
type ClaimReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// CPU is the total CPU time and the current usage.
type CPU struct {
	Time      metav1.Time `json:"time"`
	NanoCores *uint64     `json:"usageNanoCores,omitempty"`
	Total     uint64      `json:"usageCoreNanoSeconds"`
}

// Memory is memory in bytes.
type Memory struct {
	Time       metav1.Time `json:"time"`
	Available  *uint64     `json:"availableBytes,omitempty"`
	Usage      *uint64     `json:"usageBytes,omitempty"`
	WorkingSet uint64      `json:"workingSetBytes"`
	RSS        *uint64     `json:"rssBytes,omitempty"`
}

// FS is a file system, or a part of one, in bytes.
type FS struct {
	Time       metav1.Time `json:"time"`
	Available  *uint64     `json:"availableBytes,omitempty"`
	Capacity   *uint64     `json:"capacityBytes,omitempty"`
	Used       *uint64     `json:"usedBytes,omitempty"`
	InodesFree *uint64     `json:"inodesFree,omitempty"`
	Inodes     *uint64     `json:"inodes,omitempty"`
	InodesUsed *uint64     `json:"inodesUsed,omitempty"`
}

// Sum adds up the usage of the containers.
func (p *Pod) Sum() {
	cpu, memory := CPU{}, Memory{}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.CPU != nil {
			cpu.Time, cpu.Total = c.CPU.Time, cpu.Total+c.CPU.Total
			if c.CPU.NanoCores != nil {
				cpu.NanoCores = plus(cpu.NanoCores, *c.CPU.NanoCores)
			}
		}
		if c.Memory != nil {
			memory.Time, memory.WorkingSet = c.Memory.Time, memory.WorkingSet+c.Memory.WorkingSet
			if c.Memory.RSS != nil {
				memory.RSS = plus(memory.RSS, *c.Memory.RSS)
			}
			if c.Memory.Usage != nil {
				memory.Usage = plus(memory.Usage, *c.Memory.Usage)
			}
		}
	}
	if !cpu.Time.IsZero() {
		p.CPU = &cpu
	}
	if !memory.Time.IsZero() {
		p.Memory = &memory
	}
}

func plus(sum *uint64, n uint64) *uint64 {
	if sum != nil {
		n += *sum
	}
	return &n
}

func moment(at time.Time) metav1.Time { return metav1.Time{Time: at} }
