package prommetrics_test

import (
	"errors"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/attachdetach"
	"github.com/millrace/millrace/internal/controllers/internal/slice"
	"github.com/millrace/millrace/internal/controllers/job"
	"github.com/millrace/millrace/internal/controllers/nodeipam"
	"github.com/millrace/millrace/internal/controllers/nodelifecycle"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/internal/controllers/podgc"
	"github.com/millrace/millrace/internal/controllers/prommetrics"
	"github.com/millrace/millrace/internal/controllers/statefulset"
	"github.com/millrace/millrace/loop"
)

func TestLoopsAreMeasuredUnderKubernetesNames(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var o controllers.Options
	if err := prommetrics.Measure(&o, registry); err != nil {
		t.Fatal(err)
	}
	o.Jobs.Metrics.Finished(batchv1.IndexedCompletion, true, "CompletionsReached")
	o.Jobs.Metrics.Finished(batchv1.IndexedCompletion, true, "CompletionsReached")
	o.Jobs.Metrics.Finished(batchv1.NonIndexedCompletion, false, "BackoffLimitExceeded")
	o.Jobs.Metrics.Pods(batchv1.NonIndexedCompletion, 3, 1)
	o.CronJobs.Metrics.Started(5 * time.Second)
	o.Nodes.Metrics.Evicted("a")
	o.Nodes.Metrics.Count(func() map[string]nodelifecycle.Zone {
		return map[string]nodelifecycle.Zone{"a": {Ready: 3, Failing: 1}}
	})
	for range 8 {
		o.Nodes.Metrics.Examined(250 * time.Millisecond)
	}
	o.Jobs.Metrics.Synced(batchv1.IndexedCompletion, job.PodsCreated, nil, time.Second)
	o.Jobs.Metrics.Indexes(true, 2, 1)
	o.Jobs.Metrics.Created(job.ForFailed, errors.New("refused"))
	o.Jobs.Metrics.Judged(batchv1.PodFailurePolicyActionIgnore)
	o.Jobs.Metrics.Tracked(true)
	o.Jobs.Metrics.Tracked(false)
	o.Jobs.Metrics.Delegated("example.com/other")
	o.Jobs.Metrics.Expired(3 * time.Second)
	pods := netip.MustParsePrefix("10.0.0.0/16")
	o.Ranges.Metrics.Assigned(pods, 7)
	o.Ranges.Metrics.Released(pods)
	o.Ranges.Metrics.Count(func() map[netip.Prefix]nodeipam.Usage {
		return map[netip.Prefix]nodeipam.Usage{pods: {Used: 64, All: 256}}
	})
	o.Slices.Metrics.Synced(loop.Key{Name: "a"}, slice.Sync{Endpoints: 150, Ideal: 2, Slices: 3, Added: 5, Removed: 6, Created: 1, Changed: 1, Distribution: "PreferSameZone"})
	o.Slices.Metrics.Synced(loop.Key{Name: "b"}, slice.Sync{Endpoints: 10, Ideal: 1, Slices: 1, Err: errors.New("refused")})
	o.Slices.Metrics.Synced(loop.Key{Name: "c"}, slice.Sync{Endpoints: 1000, Ideal: 10, Slices: 10, Deleted: 1})
	o.Slices.Metrics.Gone(loop.Key{Name: "c"})
	o.Mirrors.Metrics.Synced(loop.Key{Name: "a"}, slice.Sync{Took: time.Second, Endpoints: 2, Ideal: 1, Slices: 1, Updated: 8, Skipped: 9})
	o.Autoscaling.Metrics.Reconciled(podautoscaler.ScaleUp, podautoscaler.NoFailure, time.Second)
	o.Autoscaling.Metrics.Computed("Resource", podautoscaler.NoAction, podautoscaler.InSpec, time.Second)
	o.Autoscaling.Metrics.Count(func() iter.Seq2[loop.Key, int32] {
		return maps.All(map[loop.Key]int32{{Namespace: "default", Name: "web"}: 4})
	})
	o.Claiming.Metrics.Classified(errors.New("refused"))
	claims := map[persistentvolume.ClaimSort]int{{Namespace: "default", Class: "slow", Attributes: "gold"}: 3}
	o.Claiming.Metrics.Count(func() persistentvolume.Census {
		return persistentvolume.Census{
			Volumes: map[persistentvolume.VolumeSort]int{{Plugin: "kubernetes.io/nfs", Mode: "Filesystem"}: 4},
			Bound:   map[string]int{"slow": 1}, Unbound: map[string]int{"slow": 2}, BoundClaims: claims, UnboundClaims: claims,
		}
	})
	o.Attaching.Metrics.Forced(attachdetach.TimedOut)
	o.Attaching.Metrics.Count(func() attachdetach.Census {
		return attachdetach.Census{InUse: map[attachdetach.Use]int{{Node: "n", Plugin: "p"}: 1}, Wanted: map[string]int{"p": 2}, Attached: map[string]int{"p": 3}}
	})
	o.Ephemeral.Created(errors.New("refused"))
	o.Publishing.Synced(nil, time.Second)
	o.Bundling.Synced(apierrors.NewForbidden(schema.GroupResource{}, "", nil), time.Second)
	o.Bundling.Synced(loop.ErrBehind, time.Second)
	o.Evictions.Evicted(time.Second)
	o.DeviceEvictions.Evicted(2 * time.Second)
	o.Pods.Deleted("default", podgc.Orphaned, errors.New("refused"))
	o.StatefulSets.Count(func() iter.Seq[statefulset.Unavailable] {
		return slices.Values([]statefulset.Unavailable{{Key: loop.Key{Namespace: "default", Name: "db"}, Policy: "OrderedReady", Pods: 2, Max: 1}})
	})
	o.Garbage.NotDiscovered()
	o.ReplicaSets.Chosen(1.5)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum(); value != 0 {
				got[name] = value
			}
		}
	}
	want := map[string]float64{
		"job_controller_jobs_finished_total Indexed CompletionsReached succeeded":   2,
		"job_controller_jobs_finished_total NonIndexed BackoffLimitExceeded failed": 1,
		"job_controller_job_pods_finished_total NonIndexed succeeded":               3,
		"job_controller_job_pods_finished_total NonIndexed failed":                  1,
		"cronjob_controller_job_creation_skew_duration_seconds":                     5,
		"node_collector_evictions_total a":                                          1,
		"node_collector_zone_size a":                                                4,
		"node_collector_unhealthy_nodes_in_zone a":                                  1,
		"node_collector_zone_health a":                                              75,

		"job_controller_job_syncs_total pods_created Indexed success":                                 1,
		"job_controller_job_sync_duration_seconds pods_created Indexed success":                       1,
		"job_controller_job_finished_indexes_total perIndex succeeded":                                2,
		"job_controller_job_finished_indexes_total perIndex failed":                                   1,
		"job_controller_job_pods_creation_total recreate_failed failed":                               1,
		"job_controller_pod_failures_handled_by_failure_policy_total Ignore":                          1,
		"job_controller_terminated_pods_tracking_finalizer_total add":                                 1,
		"job_controller_terminated_pods_tracking_finalizer_total delete":                              1,
		"job_controller_jobs_by_external_controller_total example.com/other":                          1,
		"ttl_after_finished_controller_job_deletion_duration_seconds":                                 3,
		"node_collector_update_node_health_duration_seconds":                                          2,
		"node_collector_update_all_nodes_health_duration_seconds":                                     2,
		"node_ipam_controller_cidrset_cidrs_allocations_total 10.0.0.0/16":                            1,
		"node_ipam_controller_cidrset_cidrs_releases_total 10.0.0.0/16":                               1,
		"node_ipam_controller_cidrset_allocation_tries_per_request 10.0.0.0/16":                       7,
		"node_ipam_controller_cidrset_usage_cidrs 10.0.0.0/16":                                        0.25,
		"node_ipam_controller_cirdset_max_cidrs 10.0.0.0/16":                                          256,
		"endpoint_slice_controller_changes create":                                                    1,
		"endpoint_slice_controller_changes update":                                                    1,
		"endpoint_slice_controller_changes delete":                                                    1,
		"endpoint_slice_controller_endpoints_added_per_sync":                                          5,
		"endpoint_slice_controller_endpoints_removed_per_sync":                                        6,
		"endpoint_slice_controller_endpoints_desired":                                                 160,
		"endpoint_slice_controller_num_endpoint_slices":                                               4,
		"endpoint_slice_controller_desired_endpoint_slices":                                           3,
		"endpoint_slice_controller_endpointslices_changed_per_sync Disabled PreferSameZone":           2,
		"endpoint_slice_controller_endpointslices_changed_per_sync Disabled ":                         1,
		"endpoint_slice_controller_services_count_by_traffic_distribution PreferSameZone":             1,
		"endpoint_slice_controller_syncs success":                                                     2,
		"endpoint_slice_controller_syncs error":                                                       1,
		"endpoint_slice_mirroring_controller_endpoints_desired":                                       2,
		"endpoint_slice_mirroring_controller_num_endpoint_slices":                                     1,
		"endpoint_slice_mirroring_controller_desired_endpoint_slices":                                 1,
		"endpoint_slice_mirroring_controller_endpoints_updated_per_sync":                              8,
		"endpoint_slice_mirroring_controller_addresses_skipped_per_sync":                              9,
		"endpoint_slice_mirroring_controller_endpoints_sync_duration":                                 1,
		"horizontal_pod_autoscaler_controller_reconciliations_total scale_up none":                    1,
		"horizontal_pod_autoscaler_controller_reconciliation_duration_seconds scale_up none":          1,
		"horizontal_pod_autoscaler_controller_metric_computation_total none spec Resource":            1,
		"horizontal_pod_autoscaler_controller_metric_computation_duration_seconds none spec Resource": 1,
		"horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers":                         1,
		"horizontal_pod_autoscaler_controller_desired_replicas web default":                           4,
		"retroactive_storageclass_total":                                                              1,
		"retroactive_storageclass_errors_total":                                                       1,
		"pv_collector_total_pv_count kubernetes.io/nfs Filesystem":                                    4,
		"pv_collector_bound_pv_count slow":                                                            1,
		"pv_collector_unbound_pv_count slow":                                                          2,
		"pv_collector_bound_pvc_count default slow gold":                                              3,
		"pv_collector_unbound_pvc_count default slow gold":                                            3,
		"attach_detach_controller_attachdetach_controller_forced_detaches timeout":                    1,
		"storage_count_attachable_volumes_in_use n p":                                                 1,
		"attachdetach_controller_total_volumes p desired_state_of_world":                              2,
		"attachdetach_controller_total_volumes p actual_state_of_world":                               3,
		"ephemeral_volume_controller_create_total":                                                    1,
		"ephemeral_volume_controller_create_failures_total":                                           1,
		"root_ca_cert_publisher_sync_total 200":                                                       1,
		"root_ca_cert_publisher_sync_duration_seconds 200":                                            1,
		"clustertrustbundle_publisher_sync_total 403":                                                 1,
		"clustertrustbundle_publisher_sync_duration_seconds 403":                                      1,
		"taint_eviction_controller_pod_deletions_total":                                               1,
		"taint_eviction_controller_pod_deletion_duration_seconds":                                     1,
		"device_taint_eviction_controller_pod_deletions_total":                                        1,
		"device_taint_eviction_controller_pod_deletion_duration_seconds":                              2,
		"pod_gc_collector_force_delete_pods_total default orphaned":                                   1,
		"pod_gc_collector_force_delete_pod_errors_total default orphaned":                             1,
		"statefulset_controller_statefulset_unavailable_replicas OrderedReady db default":             2,
		"statefulset_controller_statefulset_max_unavailable OrderedReady db default":                  1,
		"garbagecollector_controller_resources_sync_error_total":                                      1,
		"replicaset_controller_sorting_deletion_age_ratio":                                            1.5,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
	for name, value := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is %v, want none", name, value)
		}
	}
}
