package rules_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/custom/schema/rules"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

type props = apiextensions.JSONSchemaProps

func ruled(s props, all ...string) props {
	for _, r := range all {
		s.XValidations = append(s.XValidations, apiextensions.ValidationRule{Rule: r})
	}
	return s
}

// schemas are some with rules in all places where they may stand.
func schemas() map[string]props {
	text, number := props{Type: "string"}, props{Type: "integer"}
	element := ruled(props{Type: "object", Properties: map[string]props{"name": text, "port": ruled(number, "self != 7")}}, "self.name != 'bad'", "!has(self.port) || self.port > 0")
	spec := props{Type: "object", Properties: map[string]props{
		"color": text, "size": {XIntOrString: true}, "at": {Type: "string", Format: "date-time"}, "in": text, "a-b": number,
		"ports":  {Type: "array", XListType: new("map"), XListMapKeys: []string{"name"}, Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &element}},
		"tags":   {Type: "array", XListType: new("set"), Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &text}},
		"labels": ruled(props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: new(ruled(text, "self != 'red'"))}}, "size(self) < 3"),
		"any":    {Type: "object", XPreserveUnknownFields: new(true), Properties: map[string]props{"known": number}},
	}}
	root := func(spec props) props {
		return props{Type: "object", Properties: map[string]props{"spec": spec, "status": props{Type: "object", Properties: map[string]props{"note": text}}}}
	}
	return map[string]props{
		"none":      root(props{Type: "object", Properties: map[string]props{"color": text}}),
		"many":      root(ruled(spec, "self.color != 'red'", "!has(self.tags) || self.tags.all(t, t != 'bad')", "!has(self.__in__) || self.__in__ == 'a'", "!has(self.a__dash__b) || self.a__dash__b < 3")),
		"kinds":     root(ruled(spec, "!has(self.size) || type(self.size) == int || self.size == 'a'", "!has(self.at) || self.at < timestamp('2025-01-01T00:00:00Z')", "!has(self.any) || !has(self.any.known) || self.any.known > 1")),
		"equality":  root(ruled(spec, "!has(self.tags) || self.tags == ['a','bad']", "!has(self.ports) || self.ports.exists_one(p, p.name == 'a')")),
		"errors":    root(ruled(spec, "self.tags[1] == 'a'", "self.color.matches('[')")),
		"older":     root(ruled(spec, "self.color == oldSelf.color")),
		"outermost": ruled(root(spec), "self.metadata.name == 'a'"),
		"broken":    root(ruled(spec, "self.unknown == 1")),
		"dear":      root(ruled(spec, "!has(self.tags) || self.tags.all(a, self.tags.all(b, self.tags.all(c, self.tags.all(d, a + b + c + d != 'x'))))")),
	}
}

func value(r *rand.Rand, s *props) any {
	one := func(all ...any) any { return all[r.IntN(len(all))] }
	switch {
	case s.XIntOrString:
		return one(int64(1), "a", "b")
	case s.Format == "date-time":
		return one("2024-01-02T03:04:05Z", "2026-01-02T03:04:05Z")
	case s.Type == "string":
		return one("a", "b", "red", "bad")
	case s.Type == "integer":
		return one(int64(0), int64(1), int64(2), int64(7))
	case s.Type == "array":
		list := []any{}
		for range r.IntN(4) {
			list = append(list, value(r, s.Items.Schema))
		}
		return list
	}
	out := map[string]any{}
	for name, p := range s.Properties {
		if name == "spec" || r.IntN(3) > 0 {
			out[name] = value(r, &p)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		for i := range r.IntN(4) {
			out[fmt.Sprint("k", i)] = value(r, a.Schema)
		}
	}
	return out
}

// TestRulesHoldOnlyWhereThePublishedPackageFindsNothing compares the two on random objects, with and without an older
// one.
func TestRulesHoldOnlyWhereThePublishedPackageFindsNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	const limit = 1_000_000
	for name, root := range schemas() {
		t.Run(name, func(t *testing.T) {
			s, err := structural.NewStructural(&root)
			if err != nil {
				t.Fatal(err)
			}
			budget := int64(10 * limit)
			if name == "dear" {
				budget = 200
			}
			quick, library := rules.Compile(s, limit, budget), cel.NewValidator(s, true, limit)
			held, sound := 0, 0
			for range 1000 {
				object := value(r, &root).(map[string]any)
				object["apiVersion"], object["kind"], object["metadata"] = "example.com/v1", "Tab", map[string]any{"name": "a"}
				text, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				o, ok := tree.ParseObject(string(text))
				if !ok {
					t.Fatalf("%s is unusual", text)
				}
				errs, _ := library.Validate(t.Context(), nil, s, object, nil, budget)
				old := value(r, &root).(map[string]any)
				again, _ := library.Validate(t.Context(), nil, s, object, old, budget, cel.WithRatcheting(common.NewCorrelatedObject(object, old, &model.Structural{Structural: s})))
				if len(errs)+len(again) == 0 {
					sound++
				}
				if !quick.Hold(t.Context(), o) {
					continue
				}
				held++
				if len(errs)+len(again) > 0 {
					t.Fatalf("%s: %v, %v", text, errs, again)
				}
			}
			left := name == "older" || name == "outermost" || name == "broken"
			if left && held > 0 || !left && held < sound*9/10 {
				t.Errorf("%d were found right, %d are", held, sound)
			}
		})
	}
}
