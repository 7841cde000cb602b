package rules

// Shape is a function from utilization to score: a line through points, in ascending order of their utilization.
type Shape []ShapePoint

// ShapePoint is one point: a utilization in percent, and a score from 0 to [plugin.MaxScore].
type ShapePoint struct{ Utilization, Score int64 }

// at returns the score of a utilization. Before the first point and after the last one the score is constant.
func (s Shape) at(used int64) int64 {
	for i, p := range s {
		if used > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score
		}
		before := s[i-1]
		return before.Score + (p.Score-before.Score)*(used-before.Utilization)/(p.Utilization-before.Utilization)
	}
	return s[len(s)-1].Score
}
