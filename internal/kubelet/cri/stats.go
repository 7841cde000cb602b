package cri

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Usages returns the usage of the running containers, by their ID.
func (r *Runtime) Usages(ctx context.Context) (map[string]container.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.listStats(ctx)
	for range triesForStats - 1 {
		if status.Code(err) == codes.NotFound {
			answer, err = r.listStats(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the usage of containers: %w", err)
	}
	all := make(map[string]container.Usage, len(answer.Stats))
	for _, s := range answer.Stats {
		u := container.Usage{
			ID: r.identity(ctx, s.GetAttributes().GetId()), At: moment(s.GetCpu().GetTimestamp()), CPU: value(s.GetCpu().GetUsageCoreNanoSeconds()),
			WorkingSet: value(s.GetMemory().GetWorkingSetBytes()), Memory: value(s.GetMemory().GetUsageBytes()), RSS: value(s.GetMemory().GetRssBytes()),
			Disk: value(s.GetWritableLayer().GetUsedBytes()), Inodes: value(s.GetWritableLayer().GetInodesUsed()),
		}
		all[u.ID] = u
	}
	return all, nil
}

// triesForStats is how often stats are asked for: containerd fails if one of the containers is removed meanwhile.
const triesForStats = 5

func (r *Runtime) listStats(ctx context.Context) (*runtimeapi.ListContainerStatsResponse, error) {
	return r.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{labelOwner: "true"}},
	})
}

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}
