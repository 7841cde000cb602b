package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Usage is what a container uses. Figures are nil where the runtime does not know them.
type Usage struct {
	ID                      string
	At                      time.Time
	CPU                     *uint64 // nanoseconds of processor time so far
	WorkingSet, Memory, RSS *uint64
	Disk, Inodes            *uint64
}

// Usages are what the containers use that run, by their id.
func (r *Runtime) Usages(ctx context.Context) (map[string]Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	answer, err := r.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{labelOwner: "true"}},
	})
	if err != nil {
		return nil, fmt.Errorf("ask what containers use: %w", err)
	}
	all := make(map[string]Usage, len(answer.Stats))
	for _, s := range answer.Stats {
		u := Usage{
			ID: r.identity(ctx, s.GetAttributes().GetId()), At: moment(s.GetCpu().GetTimestamp()), CPU: value(s.GetCpu().GetUsageCoreNanoSeconds()),
			WorkingSet: value(s.GetMemory().GetWorkingSetBytes()), Memory: value(s.GetMemory().GetUsageBytes()), RSS: value(s.GetMemory().GetRssBytes()),
			Disk: value(s.GetWritableLayer().GetUsedBytes()), Inodes: value(s.GetWritableLayer().GetInodesUsed()),
		}
		all[u.ID] = u
	}
	return all, nil
}

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}
