package fairness

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

// snapshot is the configuration at one time. It is not changed; the levels that it names live on from one to the next.
type snapshot struct {
	schemas []*Schema // in the order in which they are asked
	levels  []*Level  // by name

	// What the levels asked for when seats were last divided, and what the exempt ones had taken. Only Run uses them.
	claims []claim
	taken  float64
}

// find is the first schema that a request matches.
func (s *snapshot) find(q *Request) *Schema {
	for _, schema := range s.schemas {
		if schema.matches(q) {
			return schema
		}
	}
	return s.schemas[len(s.schemas)-1]
}

const (
	exemptName   = "exempt"
	catchAllName = "catch-all"
)

// compile makes the next snapshot of what the API has. Levels keep their requests. What must be there and is missing is
// filled in.
func (d *Dispatcher) compile(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	now := time.Now()
	levels = withMandatoryLevels(levels)
	shares := map[string]share{}
	for _, l := range levels {
		shares[l.Name] = shareOf(&l.Spec)
	}
	divided := divide(d.o.Seats, shares)
	next, present := &snapshot{}, map[string]*Level{}
	for _, l := range levels {
		level := d.level(l.Name, now)
		level.configure(l.UID, queuingOf(&l.Spec), divided[l.Name])
		present[l.Name], next.levels = level, append(next.levels, level)
	}
	slices.SortFunc(next.levels, func(a, b *Level) int { return cmp.Compare(a.name, b.name) })
	for _, s := range withMandatorySchemas(schemas) {
		level, ok := present[s.Spec.PriorityLevelConfiguration.Name]
		if !ok {
			continue // it dangles, and says so in its status
		}
		next.schemas = append(next.schemas, d.schema(s, level))
	}
	slices.SortFunc(next.schemas, func(a, b *Schema) int {
		return cmp.Or(cmp.Compare(a.precedence, b.precedence), cmp.Compare(a.name, b.name))
	})
	d.retire(present)
	d.now.Store(next)
}

func shareOf(s *flowcontrolv1.PriorityLevelConfigurationSpec) share {
	var out share
	switch {
	case s.Limited != nil:
		out = share{shares: value(s.Limited.NominalConcurrencyShares, 30), lendable: value(s.Limited.LendablePercent, 0), borrowing: value(s.Limited.BorrowingLimitPercent, -1)}
	case s.Exempt != nil:
		out = share{shares: value(s.Exempt.NominalConcurrencyShares, 0), lendable: value(s.Exempt.LendablePercent, 0), borrowing: -1}
	}
	return out
}

func queuingOf(s *flowcontrolv1.PriorityLevelConfigurationSpec) queuing {
	if s.Type == flowcontrolv1.PriorityLevelEnablementExempt || s.Limited == nil {
		return queuing{exempt: true}
	}
	q := s.Limited.LimitResponse.Queuing
	if s.Limited.LimitResponse.Type == flowcontrolv1.LimitResponseTypeReject || q == nil {
		return queuing{reject: true}
	}
	return queuing{queues: int(q.Queues), hand: int(q.HandSize), limit: int(q.QueueLengthLimit)}
}

func value(p *int32, otherwise int) int {
	if p == nil {
		return otherwise
	}
	return int(*p)
}

// level is the one of a name, or a new one.
func (d *Dispatcher) level(name string, now time.Time) *Level {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.levels[name]
	if !ok {
		l = newLevel(name, d.turns, now)
		d.levels[name] = l
	}
	return l
}

// retire forgets the levels that are gone: their requests are served to the end.
func (d *Dispatcher) retire(present map[string]*Level) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, l := range d.levels {
		if present[name] == nil {
			l.mu.Lock()
			l.gone = true
			l.mu.Unlock()
			delete(d.levels, name)
		}
	}
}

func (d *Dispatcher) schema(s *flowcontrolv1.FlowSchema, level *Level) *Schema {
	out := &Schema{
		name: s.Name, headers: [2][]string{{string(s.UID)}, {string(level.uid)}}, precedence: s.Spec.MatchingPrecedence, level: level,
		hash: maphash.String(seed, s.Name), counts: d.metrics.counts(level.name, s.Name),
	}
	if m := s.Spec.DistinguisherMethod; m != nil {
		out.by = m.Type
	}
	for _, r := range s.Spec.Rules {
		out.rules = append(out.rules, compileRule(r))
	}
	return out
}

// withMandatoryLevels adds those levels that must be there.
func withMandatoryLevels(all []*flowcontrolv1.PriorityLevelConfiguration) []*flowcontrolv1.PriorityLevelConfiguration {
	there := func(name string) bool {
		return slices.ContainsFunc(all, func(l *flowcontrolv1.PriorityLevelConfiguration) bool { return l.Name == name })
	}
	if !there(exemptName) {
		all = append(all, &flowcontrolv1.PriorityLevelConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: exemptName}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementExempt},
		})
	}
	if !there(catchAllName) {
		shares := int32(5)
		all = append(all, &flowcontrolv1.PriorityLevelConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: catchAllName}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: &shares, LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			},
		})
	}
	return all
}

// withMandatorySchemas adds those schemas that must be there: administrators never wait, and every request belongs to
// some schema.
func withMandatorySchemas(all []*flowcontrolv1.FlowSchema) []*flowcontrolv1.FlowSchema {
	for _, m := range []struct {
		name       string
		precedence int32
		groups     []string
	}{{exemptName, 1, []string{auth.Masters}}, {catchAllName, flowcontrolv1.FlowSchemaMaxMatchingPrecedence, []string{auth.Authenticated, auth.Unauthenticated}}} {
		if slices.ContainsFunc(all, func(s *flowcontrolv1.FlowSchema) bool { return s.Name == m.name }) {
			continue
		}
		rules := flowcontrolv1.PolicyRulesWithSubjects{
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
				Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"},
			}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
		}
		for _, g := range m.groups {
			rules.Subjects = append(rules.Subjects, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: g}})
		}
		all = append(all, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: m.name}, MatchingPrecedence: m.precedence,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{rules},
		}})
	}
	return all
}
