/**
 * Schedule of a drawing that many events ask for. They are drawn together in the next frame of the screen. After a
 * drawing, the schedule rests three times as long as the drawing took, so that most of the time is left for the user and
 * for arriving events, also on a slow computer.
 */

const REST = 3;
/** Longest rest, so that the list also moves on a computer that is busy. */
const MAX_REST_MS = 250;

export class DrawSchedule {
  private timer: number | null = null;
  private frame: number | null = null;
  private wanted = false;
  private restedAt = 0;

  constructor(private readonly draw: () => void) {}

  /** Asks for a drawing. */
  request(): void {
    this.wanted = true;
    if (this.timer !== null || this.frame !== null) {
      return;
    }
    const rest = this.restedAt - performance.now();
    if (rest > 0) {
      this.timer = window.setTimeout(() => this.drawInNextFrame(), rest);
    } else {
      this.drawInNextFrame();
    }
  }

  cancel(): void {
    this.wanted = false;
    if (this.timer !== null) {
      window.clearTimeout(this.timer);
      this.timer = null;
    }
    if (this.frame !== null) {
      cancelAnimationFrame(this.frame);
      this.frame = null;
    }
  }

  private drawInNextFrame(): void {
    this.timer = null;
    this.frame = requestAnimationFrame(() => {
      const began = performance.now();
      this.wanted = false;
      this.draw();
      // The browser lays out and paints after the frame's callbacks, and then runs the timer.
      this.timer = window.setTimeout(() => {
        this.timer = null;
        const ended = performance.now();
        this.restedAt = ended + Math.min(MAX_REST_MS, REST * (ended - began));
        if (this.wanted) {
          this.request();
        }
      });
      this.frame = null;
    });
  }
}
