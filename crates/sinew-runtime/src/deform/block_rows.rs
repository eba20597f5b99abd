//! A matrix of small blocks of which most are zero: 4 rows a block, C columns, one list of blocks a block row.

use crate::ModelError;
use crate::character::{check_finite, check_indices};
use crate::file::{TensorReader, TensorWriter};

/// Block rows of 4×C blocks in compressed form.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockRows<const C: usize> {
    /// Where each block row starts in `columns`, (P + 1).
    pub starts: Vec<u32>,
    /// The block column of each block, ascending in a row, (B).
    pub columns: Vec<u16>,
    /// The blocks, (B, 4, C), row by row.
    pub blocks: Vec<[[f32; C]; 4]>,
}

impl<const C: usize> BlockRows<C> {
    /// The number of block rows, P.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there are no block rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The (block column, block) pairs of block row `p`.
    pub fn row(&self, p: usize) -> impl Iterator<Item = (usize, &[[f32; C]; 4])> {
        let range = self.starts[p] as usize..self.starts[p + 1] as usize;
        self.columns[range.clone()].iter().map(|&column| column as usize).zip(&self.blocks[range])
    }

    /// Refuses anything but `rows` block rows whose block columns are below `columns`.
    pub(crate) fn check(&self, name: &str, rows: usize, columns: usize) -> Result<(), ModelError> {
        let ascending = self.starts.first() == Some(&0) && self.starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let total = self.starts.last().map_or(0, |&end| end as usize);
        if self.len() != rows || !ascending || total != self.columns.len() || total != self.blocks.len() {
            return Err(ModelError::Shape {
                name: format!("{name}.starts"),
                found: format!("{} rows over {} blocks", self.len(), self.columns.len()),
                expected: format!("{rows} rows, ascending from 0 to the number of blocks"),
            });
        }
        check_indices(&format!("{name}.columns"), self.columns.iter().map(|&c| c as usize), columns)?;
        check_finite(&format!("{name}.blocks"), self.blocks.as_flattened().as_flattened())
    }

    pub(crate) fn write(&self, name: &str, writer: &mut TensorWriter) {
        writer.u32(&format!("{name}.starts"), &[self.starts.len()], &self.starts);
        writer.u16(&format!("{name}.columns"), &[self.columns.len()], &self.columns);
        writer.f32(&format!("{name}.blocks"), &[self.blocks.len(), 4, C], self.blocks.as_flattened().as_flattened());
    }

    pub(crate) fn read(name: &str, reader: &TensorReader) -> Result<Self, ModelError> {
        let starts = reader.u32(&format!("{name}.starts"), &[None])?;
        let columns = reader.u16(&format!("{name}.columns"), &[None])?;
        let flat = reader.f32(&format!("{name}.blocks"), &[Some(columns.len()), Some(4), Some(C)])?;
        let block = |b: &[f32]| std::array::from_fn(|r| std::array::from_fn(|c| b[r * C + c]));
        Ok(Self { starts, columns, blocks: flat.chunks_exact(4 * C).map(block).collect() })
    }
}
