package resourceclaim_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/resourceclaim"
)

func TestClaimsAreCountedUnderKubernetesNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	maker := meter.New(registry)
	m := resourceclaim.NewMetrics(maker)
	m.Created(false, nil)
	m.Created(true, errors.New("refused"))
	m.Count(func() map[resourceclaim.Sort]int {
		return map[resourceclaim.Sort]int{{Allocated: true, Source: "resource_claim_template"}: 3}
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for _, l := range metric.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			got = append(got, fmt.Sprintf("%s{%s} %v", family.GetName(), strings.Join(labels, ","), metric.GetCounter().GetValue()+metric.GetGauge().GetValue()))
		}
	}
	want := []string{
		"dynamic_resource_allocation_resourceclaim_creates_total{admin_access=false,owner_api_group=,owner_api_kind=Pod,status=success} 1",
		"dynamic_resource_allocation_resourceclaim_creates_total{admin_access=true,owner_api_group=,owner_api_kind=Pod,status=failure} 1",
		"resourceclaim_controller_resource_claims{admin_access=false,allocated=true,source=resource_claim_template} 3",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("metrics %q", got)
	}
	if resourceclaim.NewMetrics(maker); maker.Err() == nil {
		t.Error("the same metrics were registered twice")
	}
}
