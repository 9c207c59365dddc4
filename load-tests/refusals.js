// Requests that a session was refused: they fail its checks too.
import { Counter } from 'k6/metrics';

const refused = new Counter('refused');
// A quota or a limit of the server is exceeded; the server is overloaded.
const CODES = [-32005, -32002];

// Counts this answer if it is a refusal.
export function countRefusal(answer) {
  if (answer.error && CODES.includes(answer.error.code)) refused.add(1);
}
