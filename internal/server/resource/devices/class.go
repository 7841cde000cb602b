package devices

import (
	"context"
	"time"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta1"
	"k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var (
	classSpec  declared[v1.DeviceClassSpec]       = v1.Validate_DeviceClassSpec
	ruleSpec   declared[v1.DeviceTaintRuleSpec]   = v1.Validate_DeviceTaintRuleSpec
	ruleStatus declared[v1.DeviceTaintRuleStatus] = v1.Validate_DeviceTaintRuleStatus
)

// Classes are named sets of devices with their configuration.
func Classes() *resource.Kind {
	type class = *v1.DeviceClass
	return resource.Define(resource.Description[class]{
		Group: v1.GroupName, Version: "v1", Kind: "DeviceClass", Resource: "deviceclasses",
		UnconditionalUpdate: true, ReturnDeleted: true,
		Rules: resource.Rules[class]{
			Validate: func(ctx context.Context, c class) field.ErrorList {
				return both(checkClass(c, nil), classSpec.created(ctx, "spec", &c.Spec))
			},
			ValidateUpdate: func(ctx context.Context, c, old class) field.ErrorList {
				return both(checkClass(c, old), classSpec.updated(ctx, "spec", &c.Spec, &old.Spec))
			},
		},
		Columns: []table.Column{table.Name(), table.Age()},
		Row: func(c class) resource.Row {
			return resource.Row{Cells: []any{c.Name, table.Since(c.CreationTimestamp)}}
		},
		Also: []resource.Serving[class]{
			resource.Alike[class, v1beta2.DeviceClass](v1beta2.SchemeGroupVersion.WithKind("DeviceClass")),
			resource.Alike[class, v1beta1.DeviceClass](v1beta1.SchemeGroupVersion.WithKind("DeviceClass")),
		},
	})
}

// TaintRules taint devices in addition to their drivers.
func TaintRules() *resource.Kind {
	type rule = *v1.DeviceTaintRule
	taint, selector := v1.DeviceTaint{}.SwaggerDoc(), v1.DeviceTaintSelector{}.SwaggerDoc()
	return resource.Define(resource.Description[rule]{
		Group: v1.GroupName, Version: "v1", Kind: "DeviceTaintRule", Resource: "devicetaintrules", ReturnDeleted: true,
		Default: func(r rule) { defaultTaint(&r.Spec.Taint) },
		Rules: resource.Rules[rule]{
			PrepareUpdate: func(_ context.Context, r, old rule) {
				if now, was := &r.Spec.Taint, &old.Spec.Taint; now.Effect != was.Effect && now.TimeAdded.Equal(was.TimeAdded) {
					now.TimeAdded = presentSecond()
				}
			},
			Validate: func(ctx context.Context, r rule) field.ErrorList {
				return both(checkRule(r), ruleSpec.created(ctx, "spec", &r.Spec))
			},
			ValidateUpdate: func(ctx context.Context, r, old rule) field.ErrorList {
				return both(checkRule(r), ruleSpec.updated(ctx, "spec", &r.Spec, &old.Spec))
			},
		},
		Status: &resource.Rules[rule]{
			PrepareUpdate: func(_ context.Context, r, old rule) { metav1.ResetObjectMetaForStatus(r, old) },
			ValidateUpdate: func(ctx context.Context, r, old rule) field.ErrorList {
				return both(checkRuleStatus(r), ruleStatus.updated(ctx, "status", &r.Status, &old.Status))
			},
		},
		Columns: []table.Column{
			table.Name(), table.Text("Driver", selector["driver"]), table.Text("Pool", selector["pool"]), table.Text("Device", selector["device"]),
			table.Text("Key", taint["key"]), table.Text("Value", taint["value"]), table.Text("Effect", taint["effect"]),
			table.Text("TimeAdded", taint["timeAdded"]), table.Age(),
		},
		Row: func(r rule) resource.Row {
			driver, pool, device := "*", "*", "*"
			if s := r.Spec.DeviceSelector; s != nil {
				driver, pool, device = or(s.Driver, driver), or(s.Pool, pool), or(s.Device, device)
			}
			t, added := r.Spec.Taint, table.Unknown
			if t.TimeAdded != nil {
				added = table.Since(*t.TimeAdded)
			}
			return resource.Row{Cells: []any{r.Name, driver, pool, device, t.Key, t.Value, string(t.Effect), added, table.Since(r.CreationTimestamp)}}
		},
		Also: []resource.Serving[rule]{resource.Alike[rule, v1beta2.DeviceTaintRule](v1beta2.SchemeGroupVersion.WithKind("DeviceTaintRule"))},
	})
}

func or(s *string, otherwise string) string {
	if s == nil {
		return otherwise
	}
	return *s
}

func defaultTaint(t *v1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = presentSecond()
	}
}

// presentSecond returns the current time in the resolution in which it is stored.
func presentSecond() *metav1.Time { return &metav1.Time{Time: time.Now().Truncate(time.Second)} }
