// How points and lines are drawn. Sigma draws everything a second time to know what is under the pointer; this page
// looks for the nearest node instead (view.ts), which halves the work and lets fingers hit small nodes.

import type Sigma from "sigma";
import { EdgeLineProgram, EdgeRectangleProgram, NodePointProgram } from "sigma/rendering";

type Context = WebGLRenderingContext;
type Picking = WebGLFramebuffer | null;

export class Points extends NodePointProgram {
  constructor(gl: Context, _: Picking, sigma: Sigma) {
    super(gl, null, sigma);
  }
}

export class Lines extends EdgeLineProgram {
  constructor(gl: Context, _: Picking, sigma: Sigma) {
    super(gl, null, sigma);
  }
}

export class Ribbons extends EdgeRectangleProgram {
  constructor(gl: Context, _: Picking, sigma: Sigma) {
    super(gl, null, sigma);
  }
}
